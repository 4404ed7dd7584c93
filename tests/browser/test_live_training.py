"""The Training view follows a real training: another process writes the log, and the curve grows.

The training runs only while the test lets it, so that neither side can be too fast or too slow for the other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SETTINGS = [
    "model.layers=1", "model.d_model=16", "model.heads=2", "model.d_ff=24", "tokenizer.vocab=300", "decode.beam=1",
    "decode.max_length=10", "train.steps=1000000", "train.batch_tokens=60", "train.validate_every=100",
    "train.checkpoint_every=100", "train.patience=0", "train.keep_all_checkpoints=true",
]  # fmt: skip
POINTS = "() => document.querySelector('.plot path.of-residual')?.getAttribute('d').match(/[ML]/g)?.length ?? 0"
LAST_FRAME = "() => Number(document.querySelector('.checkpoints input[type=range]').max)"


class Training:
    """`glassformer train` on made-up pairs, in another process that can be paused."""

    def __init__(self, folder: Path) -> None:
        words = ["red", "blue", "green", "white", "black"]
        pairs = [(f"{a} {b} {c}", f"{c} {b} {a}") for a in words for b in words for c in words]
        for side in (0, 1):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"train.{side}").write_text(text, encoding="utf-8")
        self.run = folder / "live"
        command = [sys.executable, "-m", "glassformer", "train", "train.0", "train.1", "-o", str(self.run), *SETTINGS]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)

    def count(self, kind: str) -> int:
        """Return how many events of a kind the log has."""
        log = self.run / "log.jsonl"
        return log.read_text(encoding="utf-8").count(f'"event": "{kind}"') if log.is_file() else 0

    def advance(self, kind: str) -> int:
        """Run until the log has another event of this kind, then pause; return how many it has."""
        before = self.count(kind)
        self.process.send_signal(signal.SIGCONT)
        while self.count(kind) == before:
            assert self.process.poll() is None
            time.sleep(0.02)
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        return self.count(kind)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    training = Training(tmp_path_factory.mktemp("live"))
    try:
        training.advance("started")
        yield training
    finally:
        training.process.kill()
        training.process.wait()


@pytest.fixture(scope="module")
def address(serve: Any, training: Training) -> Iterator[str]:
    with serve([training.run]) as where:
        yield where


def test_the_curve_grows_while_it_runs(open_page: Any, training: Training) -> None:
    page = open_page("#/training?text=red+blue+green", refusals=True)  # at first there are no weights to ask
    training.process.send_signal(signal.SIGCONT)
    page.get_by_text("Training: step").wait_for()
    for _ in range(2):
        points = training.advance("progress")
        page.wait_for_function(f"points => ({POINTS})() === points", arg=points)
    training.advance("saved")
    page.locator(".checkpoints .output").wait_for()  # a checkpoint has come, and its output is shown
    frames = page.evaluate(LAST_FRAME)
    training.advance("saved")
    page.wait_for_function(f"frames => ({LAST_FRAME})() > frames", arg=frames)
    training.process.send_signal(signal.SIGINT)
    training.process.send_signal(signal.SIGCONT)
    page.get_by_text("interrupted").wait_for()
