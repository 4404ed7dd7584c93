"""A small run that several tests of this folder translate with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.phrasebook.corpus import phrasebook

SETTINGS = {
    "tokenizer.vocab": 400,
    "model.layers": 1,
    "model.d_model": 16,
    "model.heads": 2,
    "model.d_ff": 16,
    "model.dropout": 0.0,
    "train.steps": 30,
    "train.lr": 5e-3,
    "train.validate_every": 30,
    "decode.max_length": 8,
}


@pytest.fixture(scope="session")
def phrasebook_run(made_once: Callable[..., Path]) -> Path:
    """A Transformer trained for 30 steps on the 300 sentences of a small phrasebook; tests must not change it."""
    return made_once("phrasebook", _train) / "run"


def _train(folder: Path) -> None:
    pairs = phrasebook(size=300).pairs("train", "en", "fr")
    (folder / "train.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    gf.train(str(folder / "train.tsv"), out=folder / "run", settings=SETTINGS)
