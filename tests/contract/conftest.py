"""Runs that several tests of this folder compare with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from killed import SETTINGS

import glassformer as gf
from glassformer.phrasebook.corpus import phrasebook


@pytest.fixture(scope="session")
def corpus(made_once: Callable[..., Path]) -> tuple[str, str]:
    folder = made_once("corpus", _write_corpus)
    return str(folder / "train.en"), str(folder / "train.fr")


def _write_corpus(folder: Path) -> None:
    triples = phrasebook(size=400).train
    for language in ("en", "fr"):
        (folder / f"train.{language}").write_text("".join(t.text(language) + "\n" for t in triples), encoding="utf-8")


@pytest.fixture(scope="session")
def uninterrupted(corpus: tuple[str, str], made_once: Callable[..., Path]) -> Path:
    made = made_once("uninterrupted", lambda folder: gf.train(*corpus, out=folder / "run", settings=SETTINGS))
    return made / "run"
