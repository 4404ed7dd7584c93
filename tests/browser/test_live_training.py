"""The Training view beside a training that really runs: another process writes the log, and the curve grows."""

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

PATIENCE = 120_000  # milliseconds: a busy machine trains slowly
STEPS = 100_000  # more than anybody waits for
SETTINGS = [
    "model.layers=1", "model.d_model=16", "model.heads=2", "model.d_ff=24", "tokenizer.vocab=300", "decode.beam=1",
    "decode.max_length=10", f"train.steps={STEPS}", "train.batch_tokens=60", "train.validate_every=40",
    "train.checkpoint_every=20", "train.patience=0",
]  # fmt: skip
POINTS = "() => document.querySelector('.plot path.of-residual')?.getAttribute('d').match(/[ML]/g)?.length ?? 0"


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """`glassformer train` on made-up pairs, as soon as it has begun its log."""
    folder = tmp_path_factory.mktemp("live")
    words = ["red", "blue", "green", "white", "black"]
    pairs = [(f"{a} {b} {c}", f"{c} {b} {a}") for a in words for b in words for c in words]
    for side in (0, 1):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"train.{side}").write_text(text, encoding="utf-8")
    run = folder / "live"
    command = [sys.executable, "-m", "glassformer", "train", "train.0", "train.1", "-o", str(run), *SETTINGS]
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + PATIENCE / 1000
        while not (run / "log.jsonl").is_file():
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.1)
        yield run, process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def address(serve: Any, training: tuple[Path, Any]) -> Iterator[str]:
    with serve([training[0]]) as where:
        yield where


def test_the_curve_grows_while_it_runs(open_page: Any, training: tuple[Path, subprocess.Popen[bytes]]) -> None:
    _, process = training
    page = open_page("#/training?text=red+blue+green", refusals=True)  # at first there are no weights to ask
    page.get_by_text("Training goes on: step").wait_for(timeout=PATIENCE)
    page.wait_for_function(f"({POINTS})() > 0", timeout=PATIENCE)
    before = page.evaluate(POINTS)
    page.wait_for_function(f"before => ({POINTS})() > before", arg=before, timeout=PATIENCE)
    assert process.poll() is None  # it was the training that made it grow
    page.locator(".film .output").wait_for(timeout=PATIENCE)  # a checkpoint has come, and the film begins
    most = "() => Number(document.querySelector('.film input[type=range]').max)"
    frames = page.evaluate(most)
    page.wait_for_function(f"frames => ({most})() > frames", arg=frames, timeout=PATIENCE)
    process.send_signal(signal.SIGINT)
    page.get_by_text("somebody stopped it").wait_for(timeout=PATIENCE)
