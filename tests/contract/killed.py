"""A small run in a process that kills itself, and the files that must be bit-identical."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import glassformer as gf
from glassformer.inference.run import read_weights
from glassformer.training.events import Event
from tests import forked

SETTINGS = {
    "train.precision": "fp32",  # auto depends on the CPU and on its load
    "tokenizer.vocab": 400,
    "model.layers": 1,
    "model.d_model": 16,
    "model.heads": 2,
    "model.d_ff": 24,
    "model.dropout": 0.3,
    "train.batch_tokens": 256,
    "train.accumulate": 2,
    "train.steps": 40,
    "train.warmup": 10,
    "train.lr": 2e-3,
    "train.validate_every": 7,
    "train.checkpoint_every": 5,
    "train.average": 3,
    "train.valid_sentences": 5,
    "decode.max_length": 12,
}


def train_until(kind: str, count: int, *files: str, out: Path, settings: dict[str, Any]) -> None:
    """Train in a separate process, which kills itself in the middle of a chosen event."""
    left = count

    def listener(event: Event) -> None:
        nonlocal left
        if type(event).__name__ == kind:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    child = forked.start(
        lambda: gf.train(*files, out=out, settings=settings, listener=listener), Path.cwd(), out.parent / "streams"
    )
    assert child.wait() == -signal.SIGKILL, child.err


def bits(run: Path, steps: int = 40) -> dict[str, bytes]:
    """Return final weights, newest weights and the optimizer's moments."""
    return _bits_of(run / "model.safetensors", "final") | newest_bits(run, steps)


def newest_bits(run: Path, steps: int) -> dict[str, bytes]:
    """Return newest weights and the optimizer's moments, without the final weights."""
    newest = run / "checkpoints" / f"step-{steps}"
    return _bits_of(newest / "model.safetensors", "newest") | _bits_of(newest / "optimizer.safetensors", "optimizer")


def _bits_of(file: Path, kind: str) -> dict[str, bytes]:
    return {f"{kind}:{name}": tensor.numpy().tobytes() for name, tensor in read_weights(file).items()}
