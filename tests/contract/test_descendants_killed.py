"""GPT, BERT and ViT: a run that is killed and resumed, or that uses two processes, gives the same weights."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from killed import bits, train_until
from processes import trained_in, training, weights_at

import glassformer as gf
from tests.image_folders import write_images

STEPS = {"train.steps": 20, "train.warmup": 5, "train.validate_every": 7, "train.checkpoint_every": 4}
SIZE = {"model.layers": 2, "model.d_model": 16, "train.batch_tokens": 128}
TEXT = STEPS | SIZE | {"tokenizer.vocab": 300, "data.sequence": 16}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {  # a file and settings
    "gpt": ("a.txt", TEXT | {"model.family": "gpt"}),
    "bert, masked words": ("a.txt", TEXT | {"task": "masked_words"}),
    "bert, labels": ("a.tsv", TEXT | {"model.family": "bert", "model.pooling": "first"}),
    "vit": ("images", STEPS | SIZE | {"model.patch": 4, "data.shift": 2}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, dice = tmp_path_factory.mktemp("data"), random.Random(5)
    words = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]
    rows = [dice.choices(words, k=dice.randint(2, 9)) for _ in range(120)]
    (folder / "a.txt").write_text("".join(f"{' '.join(row)}\n" for row in rows), encoding="utf-8")
    (folder / "a.tsv").write_text("".join(f"{'ba' in row}\t{' '.join(row)}\n" for row in rows), encoding="utf-8")
    write_images(folder, 30, seed=5)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_killed_and_resumed_is_bit_identical(kind: str, folder: Path, tmp_path: Path) -> None:
    """The fourth checkpoint is of step 14, which also validates: within an epoch, between two regular checkpoints."""
    name, said = KINDS[kind]
    settings = said | {"model.dropout": 0.3}
    whole = gf.train(str(folder / name), out=tmp_path / "whole", settings=settings)
    train_until("Saved", 4, str(folder / name), out=tmp_path / "run", settings=settings)
    resumed = gf.train(out=tmp_path / "run", resume=True)
    assert bits(resumed.path, 20) == bits(whole.path, 20)
    assert resumed.scores["valid"].scores == whole.scores["valid"].scores
    assert not list(resumed.path.rglob("*.tmp"))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "vit"])  # ViT: test_images_and_answers_resume.py
def test_two_processes_train_the_same_model_as_one(kind: str, folder: Path, tmp_path: Path) -> None:
    name, said = KINDS[kind]
    data, settings = str(folder / name), said | {"model.dropout": 0.0}
    alone = gf.train(data, out=tmp_path / "1", settings=settings).path
    both = trained_in(2, training([data], tmp_path / "2", settings), tmp_path / "2")
    torch.testing.assert_close(weights_at(both, 20), weights_at(alone, 20), rtol=1e-3, atol=2e-5)
