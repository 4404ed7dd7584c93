"""A real training process, killed at instants that nobody chose, ends with the bits of one that was not killed.

GLASSFORMER_KILLS=100 python -m pytest tests/contract/test_killed.py -k instants -s
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from killed import SETTINGS, bits

KILLS = int(os.environ.get("GLASSFORMER_KILLS", "5"))
STEPS = 40 * max(1, KILLS // 10)

# Counts what reaches the disk, and dies in front of it: inside a checkpoint, before it has its name, after it has.
WRITER = """
import os, signal, sys
import torch
import glassformer as gf
from glassformer import files
torch.set_num_threads(1)
settings, source, target, out, count = eval(sys.argv[1])
flush, replace = files._flush, os.replace
def dying(act):
    def do(*args):
        global count
        count -= 1
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return act(*args)
    return do
files._flush, os.replace = dying(flush), dying(replace)
gf.train(source, target, out=out, settings=settings)
"""


def command(run: Path, corpus: tuple[str, str], steps: int) -> list[str]:
    """Begins the run, or goes on with it, as a person would."""
    start = [sys.executable, "-m", "glassformer", "train"]
    if (run / "run.toml").exists():
        return [*start, "-o", str(run), "--resume"]
    settings = [f"{name}={value}" for name, value in (SETTINGS | {"train.steps": steps}).items()]
    return [*start, *corpus, "-o", str(run), *settings]


def one_life(run: Path, corpus: tuple[str, str], steps: int, seconds: float | None) -> bool:
    """Lets the process live so long, or to its end; says whether it was killed."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command(run, corpus, steps), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        _, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True
    assert process.returncode == 0, said.decode()
    return False


def test_killed_at_random_instants_it_ends_with_the_same_bits(corpus: tuple[str, str], tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert not one_life(whole, corpus, STEPS, None)
    dice, kills, lives = random.Random(KILLS), 0, 0
    while kills < KILLS:
        lives += 1
        if one_life(run, corpus, STEPS, dice.uniform(0.5, 4.5)):
            kills += 1
        else:  # it came to its end between two kills: the next begins anew
            assert bits(run, STEPS) == bits(whole, STEPS)
            run = tmp_path / f"run-{lives}"
    one_life(run, corpus, STEPS, None)
    assert bits(run, STEPS) == bits(whole, STEPS)
    assert not list(run.rglob("*.tmp"))
    print(f"{kills} kills, {lives + 1} lives, {STEPS} steps: bit-identical")


@pytest.mark.parametrize("count", [1, 5, 9, 13, 17, 22, 29, 41])
def test_killed_inside_a_write(count: int, corpus: tuple[str, str], uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = repr((SETTINGS, *corpus, str(run), count))
    victim = subprocess.run([sys.executable, "-c", WRITER, arguments], check=False)
    assert victim.returncode == -signal.SIGKILL
    assert not one_life(run, corpus, SETTINGS["train.steps"], None)
    assert bits(run) == bits(uninterrupted)
    assert not list(run.rglob("*.tmp"))
