"""Runs that several tests of this folder compare with."""

from __future__ import annotations

from pathlib import Path

import pytest
from killed import SETTINGS

import glassformer as gf
from glassformer.phrasebook.corpus import phrasebook


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("corpus")
    triples = phrasebook(size=400).train
    for language in ("en", "fr"):
        (folder / f"train.{language}").write_text("".join(t.text(language) + "\n" for t in triples), encoding="utf-8")
    return str(folder / "train.en"), str(folder / "train.fr")


@pytest.fixture(scope="session")
def uninterrupted(corpus: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gf.train(*corpus, out=tmp_path_factory.mktemp("whole") / "run", settings=SETTINGS).path
