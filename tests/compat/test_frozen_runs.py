"""Runs of earlier versions, as they were written: each must load and translate as it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf

RUNS = sorted((Path(__file__).parent / "runs").iterdir())


def expected(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "expected.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_frozen_run_translates_as_it_did(run: Path) -> None:
    translator = gf.load(run)
    for case in expected(run):
        (found,) = translator.translate([case["source"]], beam=case["beam"])
        assert found.text == case["translation"]
        assert found.score == pytest.approx(case["score"], abs=1e-4)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_frozen_run_can_be_trained_further(run: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"I am {n}\tJe suis {n}\n" for n in range(60)), encoding="utf-8")
    settings = {"train.steps": 2, "train.validate_every": 2}
    child = gf.train(str(pairs), out=tmp_path / "child", start_from=run, settings=settings)
    assert gf.load(child.path).translate(["I am a student"])
