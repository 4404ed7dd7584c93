"""Run folders of earlier versions: each must load and give the same translations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import glassformer as gf
from glassformer.engine import library
from glassformer.inference.search_engine import EngineName
from glassformer.inference.translator import Translator

RUNS = sorted((Path(__file__).parent / "runs").iterdir())


def expected(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "expected.jsonl").read_text(encoding="utf-8").splitlines()]


def skip_without_native_engine() -> None:
    """A wheel contains the engine, or it is compiled."""
    try:
        library.library()
    except library.Unavailable as reason:
        pytest.skip(str(reason))


def assert_translates_as_expected(translator: Translator, run: Path) -> None:
    for case in expected(run):
        (found,) = translator.translate([case["source"]], beam=case["beam"])
        assert found.text == case["translation"]
        assert found.score == pytest.approx(case["score"], abs=1e-4)


@pytest.mark.parametrize("engine", ["torch", "native"])
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_frozen_run_translates_as_it_did(run: Path, engine: EngineName) -> None:
    if engine == "native":
        skip_without_native_engine()
    assert_translates_as_expected(gf.load(run, precision="fp32", engine=engine), run)


def trained_further(run: Path, folder: Path, **settings: Any) -> Path:
    pairs = folder / "pairs.tsv"
    pairs.write_text("".join(f"I am {n}\tJe suis {n}\n" for n in range(60)), encoding="utf-8")
    steps = {"train.steps": 2, "train.validate_every": 2, "train.warmup": 1}
    return gf.train(str(pairs), out=folder / "child", start_from=run, settings=steps | settings).path


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_training_can_start_from_a_frozen_run(run: Path, tmp_path: Path) -> None:
    """With a tiny learning rate, the new run gives the same translations as the frozen one."""
    child = trained_further(run, tmp_path, **{"train.lr": 1e-9})
    assert_translates_as_expected(gf.load(child), run)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_frozen_run_can_be_trained_further(run: Path, tmp_path: Path) -> None:
    child = trained_further(run, tmp_path, **{"train.lr": 1e-3})
    before, after = (load_file(folder / "model.safetensors") for folder in (run, child))
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert (child / "tokenizer.json").read_bytes() == (run / "tokenizer.json").read_bytes()
