"""A tiny trained run, which the tests of the command line copy into their working directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import TINY, glassformer


@pytest.fixture(scope="session")
def trained_folder(made_once: Callable[..., Path]) -> Path:
    """A folder with the phrasebook (train.en, train.fr, …) and `run`, a model trained on it for five steps."""
    return made_once("trained_folder", _fill_trained_folder)


def _fill_trained_folder(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        got = glassformer("data get phrasebook --size 200 -o .")
        held_out = "--valid valid.en valid.fr --test test.en test.fr"
        made = glassformer(f"train train.en train.fr {held_out} -o run {TINY}")
    assert (got.code, made.code) == (0, 0), got.err + made.err


@pytest.fixture(scope="session")
def template(trained_folder: Path) -> Path:
    """The folder that `workdir` copies; a test file may override it."""
    return trained_folder
