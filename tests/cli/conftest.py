"""One tiny run that every test of the command line may copy and damage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import TINY, glassformer


@pytest.fixture(scope="session")
def workshop(made_once: Callable[..., Path]) -> Path:
    """A folder with the phrasebook (train.en, train.fr, …) and `run`, a model trained on it for five steps."""
    return made_once("workshop", _fill_workshop)


def _fill_workshop(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        got = glassformer("data get phrasebook --size 200 -o .")
        held_out = "--valid valid.en valid.fr --test test.en test.fr"
        made = glassformer(f"train train.en train.fr {held_out} -o run {TINY}")
    assert (got.code, made.code) == (0, 0), got.err + made.err


@pytest.fixture(scope="session")
def stock(workshop: Path) -> Path:
    """What lies on the desk: the workshop, or what a file of tests puts in its place."""
    return workshop


@pytest.fixture
def desk(stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to spoil, and the current folder."""
    folder = tmp_path / "desk"
    shutil.copytree(stock, folder)
    monkeypatch.chdir(folder)
    return folder
