"""The precision of this machine is found by a trial in a child process, which may crash."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer import machine
from glassformer.decoding.greedy import score_dtype
from glassformer.nn.loss import smoothed_cross_entropy_plain
from tests.families import PAD, transformer

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.mark.parametrize(
    ("trial", "speed", "precision"),
    [(DIES, None, "fp32"), ("print(0.8)", 0.8, "fp32"), ("print(4.5)", 4.5, "bf16"), ("print('?')", None, "fp32")],
)
def test_a_trial_decides_whether_bf16_is_used(
    trial: str, speed: float | None, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "TRIAL", trial)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "device", lambda: "cpu")
    assert machine.bf16_speed() == speed
    assert machine.fastest_safe_precision()[0] == precision
    assert machine.bf16_works() is (speed is not None)


def test_the_result_of_the_trial_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "machine.json"
    monkeypatch.setattr(machine, "TRIAL", "print(2.5)")
    assert machine.bf16_speed(cache) == 2.5
    monkeypatch.setattr(machine, "TRIAL", DIES)
    assert machine.bf16_speed(cache) == 2.5
    assert list(json.loads(cache.read_text(encoding="utf-8")).values()) == [2.5]


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"another machine": 9}'])
def test_a_damaged_or_foreign_cache_is_ignored(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "machine.json"
    cache.write_text(damage, encoding="utf-8")
    monkeypatch.setattr(machine, "TRIAL", DIES)
    assert machine.bf16_speed(cache) is None


def test_an_unwritable_home_folder_is_tolerated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr(machine, "TRIAL", "print(2.0)")
    assert machine.bf16_speed(tmp_path / "file" / "machine.json") == 2.0


def test_the_real_trial_ends_and_leaves_this_process_alive(tmp_path: Path) -> None:
    speed = machine.bf16_speed(tmp_path / "machine.json")
    assert speed is None or speed > 0


@pytest.mark.parametrize(
    ("trial", "reason"),
    [
        (DIES, "a trial bf16 matmul failed on this CPU"),
        ("print(0.04)", "a trial bf16 matmul had 0.04 times the speed of fp32 on this CPU"),
        ("print(1.2)", "a trial bf16 matmul was only 1.2 times as fast as fp32 on this CPU"),
        ("print(4.5)", "a trial bf16 matmul was 4.5 times as fast as fp32 on this CPU"),
    ],
)
def test_the_reason_for_the_chosen_precision(
    trial: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "TRIAL", trial)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "device", lambda: "cpu")
    assert machine.fastest_safe_precision()[1] == reason


@pytest.mark.parametrize(("native", "precision"), [(False, "fp32"), (True, "bf16")])
def test_a_gpu_that_only_emulates_bf16_trains_in_fp32(
    native: bool, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "device", lambda: "cuda:0")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or native)
    assert machine.fastest_safe_precision()[0] == precision


def test_an_apple_gpu_is_used_by_a_single_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert machine.device() == "mps"
    assert machine.fastest_safe_precision()[0] == "fp32"
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert machine.device() == "cpu"
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setenv("GLASSFORMER_DEVICE", "cpu")
    assert machine.device() == "cpu"


class RefuseFp64(TorchDispatchMode):
    """Like an Apple GPU, which has no fp64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        tensors = [one for one in (found if isinstance(found, tuple | list) else [found]) if torch.is_tensor(one)]
        assert torch.float64 not in [tensor.dtype for tensor in tensors], func
        return found


def test_what_runs_on_an_apple_gpu_needs_no_fp64() -> None:
    model, tokens_BT = transformer(), torch.tensor([[5, 7, 11, 3], [5, 13, PAD, PAD]])
    model.eval()(tokens_BT, tokens_BT)  # the table of positional encodings is made on the CPU
    with RefuseFp64():
        hidden_ND = model.hidden(tokens_BT, tokens_BT).flatten(0, 1)
        weight_VD = torch.ones(17, hidden_ND.shape[1], requires_grad=True)
        smoothed_cross_entropy_plain(hidden_ND, weight_VD, tokens_BT.flatten(), 0.1).backward()
        model.step(tokens_BT[:, 0], model.start(model.encode(tokens_BT)))
        with pytest.raises(AssertionError):
            torch.zeros(2, dtype=score_dtype(torch.device("cpu")))
        torch.zeros(2, dtype=score_dtype(torch.device("mps")))


def test_child_processes_of_tests_train_in_fp32_on_every_cpu() -> None:
    """tests/conftest.py says why; a timed trial would make results depend on the load."""
    program = "from glassformer import machine; machine.TRIAL = 'print(9)'; print(machine.bf16_speed())"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "None"
