"""The models of the lessons can be trained, and the views of the lessons name only these models."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.inference.loading import load
from glassformer.lab import lesson_models
from glassformer.lab.lesson_models import DEMO, LESSON_MODELS, LessonModel
from glassformer.lessons import View, lessons
from glassformer.training.train import train

pytestmark = pytest.mark.slow

FEW = {"train.steps": 2, "train.warmup": 1, "train.validate_every": 2, "train.checkpoint_every": 2}


@pytest.mark.parametrize("model", LESSON_MODELS, ids=lambda model: model.name)
def test_every_model_trains_and_loads(model: LessonModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson_models, "SENTENCES", 300)
    monkeypatch.setattr(lesson_models, "IMAGES", 60)
    run = train(*model.write_data(tmp_path), out=tmp_path / model.name, settings={**model.settings, **FEW})
    assert load(run.path) is not None


@pytest.mark.parametrize("language", ["en", "ko"])
def test_lessons_show_these_models(language: str) -> None:
    views: list[View] = [view for lesson in lessons(language) for view in lesson.of_kind("view")]
    shown = {view.address["run"] for view in views if view.address["view"] != "worked"}  # that view needs no model
    assert shown <= {DEMO, *(model.name for model in LESSON_MODELS)}
