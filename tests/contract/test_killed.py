"""A training process that is killed at random instants gives the same bits as an uninterrupted one.

GLASSFORMER_KILLS=100 python -m pytest tests/contract/test_killed.py -k instants -s
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killed import SETTINGS, bits

import glassformer as gf
from glassformer import operating_system
from tests import forked

KILLS = int(os.environ.get("GLASSFORMER_KILLS", "5"))
STEPS = 40 * max(1, KILLS // 10)


def arguments(run: Path, corpus: tuple[str, str], steps: int) -> list[str]:
    """Return the arguments that start the run, or resume it."""
    if (run / "run.toml").exists():
        return ["train", "-o", str(run), "--resume"]
    settings = [f"{name}={value}" for name, value in (SETTINGS | {"train.steps": steps}).items()]
    return ["train", *corpus, "-o", str(run), *settings]


def one_life(run: Path, corpus: tuple[str, str], steps: int, seconds: float = float("inf")) -> bool:
    """Run the process for a time, or to its end; return whether it was killed."""
    act = forked.command_line(arguments(run, corpus, steps))
    child = forked.start(act, run.parent, run.parent / "streams")
    if child.wait(seconds) is None:
        child.send_signal(signal.SIGKILL)
    code = child.wait()
    assert code in (0, -signal.SIGKILL), child.err
    return code != 0


def test_killed_at_random_instants_it_ends_with_the_same_bits(corpus: tuple[str, str], tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert not one_life(whole, corpus, STEPS)
    dice, kills, lives = random.Random(KILLS), 0, 0
    while kills < KILLS:
        lives += 1
        if one_life(run, corpus, STEPS, dice.uniform(0.02, 1.5)):
            kills += 1
        else:  # it finished between two kills: start the next run
            assert bits(run, STEPS) == bits(whole, STEPS)
            run = tmp_path / f"run-{lives}"
    one_life(run, corpus, STEPS)
    assert bits(run, STEPS) == bits(whole, STEPS)
    assert not list(run.rglob("*.tmp"))
    print(f"{kills} kills, {lives + 1} lives, {STEPS} steps: bit-identical")


def die_in_front_of_write(count: int) -> None:
    """Count the writes, and die within a checkpoint, before or after it is renamed."""

    def dying(act: Callable[..., Any]) -> Callable[..., Any]:
        def do(*args: Any) -> Any:
            nonlocal count
            count -= 1
            if count == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return act(*args)

        return do

    operating_system.flush, os.replace = dying(operating_system.flush), dying(os.replace)


@pytest.mark.parametrize("count", [1, 5, 9, 13, 17, 22, 29, 41])
def test_killed_inside_a_write(count: int, corpus: tuple[str, str], uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def victim() -> None:
        die_in_front_of_write(count)
        gf.train(*corpus, out=run, settings=SETTINGS)

    assert forked.start(victim, tmp_path, tmp_path / "streams").wait() == -signal.SIGKILL
    assert not one_life(run, corpus, SETTINGS["train.steps"])
    assert bits(run) == bits(uninterrupted)
    assert not list(run.rglob("*.tmp"))
