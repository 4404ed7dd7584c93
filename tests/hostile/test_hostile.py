"""Every case of the tables, against the real command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases_files import FILES
from cases_mistakes import MISTAKES
from cases_runs import RUNS
from cases_settings import SETTINGS
from cases_text import TEXTS
from harness import Case, check

CASES = [*MISTAKES, *FILES, *RUNS, *SETTINGS, *TEXTS]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hostile_input_is_answered(case: Case, template: Path, tmp_path: Path) -> None:
    if case.skip:
        pytest.skip(case.skip)
    check(case, template, tmp_path / "workdir")


def test_case_names_are_unique_and_many() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) >= 1000
