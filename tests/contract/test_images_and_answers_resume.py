"""Images and question answering: a run that is resumed, or that uses two processes, gives the same weights."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from killed import bits
from processes import trained_in, training, weights_at

import glassformer as gf
from glassformer.training.events import Event, Saved
from tests.image_folders import write_images

STEPS = {"train.steps": 12, "train.warmup": 4, "train.validate_every": 5, "train.checkpoint_every": 4}
VIT = {"model.d_model": 16, "model.layers": 1, "model.patch": 4, "train.batch_tokens": 80, "data.shift": 2}
READER = {"model.d_model": 16, "tokenizer.vocab": 300, "train.batch_tokens": 256}
BERT = READER | {"model.family": "bert", "model.layers": 1}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {  # a file and settings
    "images": ("images", STEPS | VIT),
    "answers": ("qa.json", STEPS | READER),
    "answers of bert": ("qa.json", STEPS | BERT),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_images(folder, 25)
    paragraphs = []
    for number in range(40):
        text = f"the tower of Ana{number % 7} stands since {1900 + number} by the river"
        answer = {"text": str(1900 + number), "answer_start": text.index("19")}
        paragraphs.append({"context": text, "qas": [{"question": "since when ?", "answers": [answer]}]})
    (folder / "qa.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_and_resumed_is_bit_identical(kind: str, folder: Path, tmp_path: Path) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, Saved) and event.step == 8:
            os.kill(os.getpid(), signal.SIGINT)

    name, said = KINDS[kind]
    settings = said | {"model.dropout": 0.2, "data.flip": True}
    whole = gf.train(str(folder / name), out=tmp_path / "whole", settings=settings)
    run = gf.train(str(folder / name), out=tmp_path / "run", settings=settings, listener=interrupt)
    assert (run.reason, run.step) == ("interrupted", 8)
    resumed = gf.train(out=run.path, resume=True)
    assert bits(resumed.path, 12) == bits(whole.path, 12)
    assert resumed.scores["valid"].scores == whole.scores["valid"].scores


@pytest.mark.parametrize("kind", ["images", "answers of bert"])
def test_two_processes_train_the_same_model_as_one(kind: str, folder: Path, tmp_path: Path) -> None:
    """Images are shifted and flipped as in one process.

    The softmax over positions ignores what all positions share: such weights move by rounding errors only.
    """
    name, said = KINDS[kind]
    shared = {"encoder.encoder.0.feed_forward_residual.norm.bias", "output.bias"} if "answers" in kind else set()
    data, settings = str(folder / name), said | {"model.dropout": 0.0, "data.flip": True}
    alone = gf.train(data, out=tmp_path / "1", settings=settings).path
    both = trained_in(2, training([data], tmp_path / "2", settings), tmp_path / "2")
    weights = [{part: w for part, w in weights_at(run, 12).items() if part not in shared} for run in (alone, both)]
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-3, atol=2e-5)
