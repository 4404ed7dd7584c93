"""Adapters beside their base run: loaded, listed, merged; a wrong or damaged one is refused with a clear message."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer as gf
from glassformer.errors import UserError
from glassformer.inference.adapters import list_adapters, merge_adapter
from glassformer.inference.base_run import BaseRun, is_folder_name
from glassformer.inference.run import load_run, weights_of
from glassformer.inference.run_folder import RunFolder
from glassformer.inference.translator import load_translator
from tests.untrained_runs import SMALL_GPT, adapter_run, trained_run, untrained_run

LINES = ["I am a student.", "The cat sleeps.", "She reads a book."]
Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    adapter_run(trained_run(folder / "base"), folder / "adapter")
    raw = {"task": "language_model", "data": {"train": ["a"]}, "model": SMALL_GPT}
    adapter_run(untrained_run(folder / "gpt", raw), folder / "gpt-adapter")
    return folder


@pytest.fixture
def own_runs(runs: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(runs, tmp_path / "runs"))


def test_it_translates_the_same_in_both_engines_and_when_merged(runs: Path, tmp_path: Path) -> None:
    expected = load_translator(runs / "adapter", engine="torch")(LINES)
    assert expected != load_translator(runs / "base")(LINES)
    merged = merge_adapter(runs / "adapter", tmp_path / "merged").path
    assert load_translator(runs / "adapter")(LINES) == load_translator(merged)(LINES) == expected
    ours, theirs = (weights_of(load_run(run).model) for run in (runs / "adapter", merged))
    assert all(weight.equal(theirs[name]) for name, weight in ours.items())
    assert not RunFolder(merged).is_adapter and load_run(merged).settings.train.lora == 0
    with pytest.raises(UserError, match="not an adapter"):
        merge_adapter(merged, tmp_path / "again")


def test_a_language_model_with_an_adapter_continues_a_text(runs: Path, tmp_path: Path) -> None:
    merged = merge_adapter(runs / "gpt-adapter", tmp_path / "merged").path
    told, expected = (gf.load(run)("the", length=9) for run in (runs / "gpt-adapter", merged))
    assert told == expected != gf.load(runs / "gpt")("the", length=9)


def test_the_adapters_of_a_run_are_listed(own_runs: Path) -> None:
    adapter_run(own_runs / "base", own_runs / "other")
    BaseRun("base", "0" * 32).save(RunFolder(own_runs / "other"))
    good, wrong = list_adapters(own_runs / "base")
    assert (good.run.name, good.problem, wrong.run.name) == ("adapter", "", "other")
    assert "another base run" in wrong.problem
    assert good.size == (own_runs / "adapter" / "adapter.safetensors").stat().st_size


def changed_tensors(change: Callable[[Tensors], object]) -> Callable[[Path], None]:
    def damage(runs: Path) -> None:
        file = runs / "adapter" / "adapter.safetensors"
        tensors = load_file(file)
        change(tensors)
        save_file(tensors, file)

    return damage


def changed_record(**changes: Any) -> Callable[[Path], None]:
    def damage(runs: Path) -> None:
        file = runs / "adapter" / "base.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return damage


def other_weights(runs: Path) -> None:
    tensors = load_file(file := weights_file(runs))
    tensors["encoder.0.feed_forward.contract.bias"] += 1
    save_file(tensors, file)


def weights_file(runs: Path) -> Path:
    return runs / "base" / "model.safetensors"


A = "encoder.0.self_attention.query_key_value.lora_A"
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut off": (lambda runs: (runs / "adapter/adapter.safetensors").write_bytes(b"\x99" * 40), "damaged or not in"),
    "pickle": (lambda runs: torch.save({A: 1}, runs / "adapter/adapter.safetensors"), "damaged or not in"),
    "folder": (
        lambda runs: ((runs / "adapter/adapter.safetensors").unlink(), (runs / "adapter/adapter.safetensors").mkdir()),
        "damaged or not in",
    ),
    "wrong columns": (changed_tensors(lambda t: t.update({A: t[A][:, 1:].contiguous()})), "does not fit its base"),
    "wrong rank": (changed_tensors(lambda t: t.update({A: t[A][1:].contiguous()})), "does not fit its base"),
    "a vector": (changed_tensors(lambda t: t.update({A: t[A][0].contiguous()})), "does not fit its base"),
    "integers": (changed_tensors(lambda t: t.update({A: t[A].long()})), "does not fit its base"),
    "without B": (changed_tensors(lambda t: t.pop(A[:-1] + "B")), "does not fit its base"),
    "without A": (changed_tensors(lambda t: t.pop(A)), "does not fit its base"),
    "unknown layer": (changed_tensors(lambda t: t.update({"x.lora_A": t[A].clone()})), "does not fit its base"),
    "unknown tensor": (changed_tensors(lambda t: t.update({"x": t[A].clone()})), "does not fit its base"),
    "not a number": (changed_tensors(lambda t: t[A].fill_(torch.nan)), "NaN or infinity"),
    "other weights": (other_weights, "another base run"),
    "another base": (changed_record(name="gpt"), "another base run"),
    "no base": (changed_record(name="absent"), "base run of this adapter is missing"),
    "itself": (changed_record(name="adapter"), "another base run"),
    "a path": (changed_record(name="../runs/base"), "a folder beside it, not '../runs/base'"),
    "a parent": (changed_record(name=".."), "a folder beside it"),
    "an absolute path": (changed_record(name="/etc"), "a folder beside it"),
    "a null byte": (changed_record(name="base\0"), "a folder beside it"),
    "a network path": (changed_record(name="\\\\server\\share"), "a folder beside it"),
    "a number": (changed_record(name=3), "record of the base run is damaged"),
    "unknown field": (changed_record(run="base"), "record of the base run is damaged"),
    "no record": (lambda runs: (runs / "adapter/base.json").unlink(), "base.json is missing"),
    "endless base": (
        lambda runs: (weights_file(runs).unlink(), weights_file(runs).symlink_to("/dev/zero")),
        "weights are missing",
    ),
}
if not Path("/dev/zero").exists():  # Windows
    del DAMAGE["endless base"]


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_or_wrong_adapter_is_refused(kind: str, own_runs: Path) -> None:
    damage, message = DAMAGE[kind]
    damage(own_runs)
    for engine in ("torch", "auto"):
        with pytest.raises(UserError, match=message) as refused:
            load_translator(own_runs / "adapter", engine=engine)
        assert refused.value.where and refused.value.hint


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\\b", "c:", "a\0"])
def test_is_folder_name_refuses_paths(name: str) -> None:
    assert not is_folder_name(name)
    assert is_folder_name("ko-en 2.1")
