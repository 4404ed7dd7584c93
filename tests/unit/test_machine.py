"""What is safe is found out by trying, in a process that may die."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer import machine

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.mark.parametrize(
    ("trial", "speed", "precision"),
    [(DIES, None, "fp32"), ("print(0.8)", 0.8, "fp32"), ("print(4.5)", 4.5, "bf16"), ("print('?')", None, "fp32")],
)
def test_a_trial_decides(
    trial: str, speed: float | None, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "TRIAL", trial)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "device", lambda: "cpu")
    assert machine.bf16_speed() == speed
    assert machine.fastest_safe_precision()[0] == precision
    assert machine.bf16_is_safe() is (speed is not None)


def test_it_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "machine.json"
    monkeypatch.setattr(machine, "TRIAL", "print(2.5)")
    assert machine.bf16_speed(cache) == 2.5
    monkeypatch.setattr(machine, "TRIAL", DIES)
    assert machine.bf16_speed(cache) == 2.5
    assert list(json.loads(cache.read_text(encoding="utf-8")).values()) == [2.5]


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"another machine": 9}'])
def test_a_damaged_or_foreign_answer_is_not_believed(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "machine.json"
    cache.write_text(damage, encoding="utf-8")
    monkeypatch.setattr(machine, "TRIAL", DIES)
    assert machine.bf16_speed(cache) is None


def test_a_home_that_cannot_be_written_to_is_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr(machine, "TRIAL", "print(2.0)")
    assert machine.bf16_speed(tmp_path / "file" / "machine.json") == 2.0


def test_the_real_trial_ends_and_leaves_this_process_alive(tmp_path: Path) -> None:
    speed = machine.bf16_speed(tmp_path / "machine.json")
    assert speed is None or speed > 0
