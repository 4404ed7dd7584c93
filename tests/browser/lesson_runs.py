"""The models of the lessons, trained for two steps each: enough for every view to show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.cli import demo
from glassformer.lab import lesson_models
from glassformer.lab.lesson_models import DEMO, LESSON_MODELS, LessonModel, write_pairs
from glassformer.training.train import train

FEW = {
    "train.steps": 2, "train.warmup": 1, "train.validate_every": 2, "train.checkpoint_every": 2,
    "train.batch_tokens": 200, "train.average": 1,
}  # fmt: skip
SHORT = {"decode.max_length": 8}  # an untrained model does not end its output


def train_lesson_models(folder: Path) -> list[Path]:
    """Return the run folders, by the names that the lessons use."""
    runs = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lesson_models, "SENTENCES", 300)
        patch.setattr(lesson_models, "IMAGES", 60)
        for model in (LessonModel(DEMO, "", write_pairs, demo.SETTINGS), *LESSON_MODELS):
            data = folder / ".data" / model.name
            data.mkdir(parents=True)
            settings = {**model.settings, **FEW, **SHORT}
            runs.append(train(*model.write_data(data), out=folder / model.name, settings=settings).path)
    return runs
