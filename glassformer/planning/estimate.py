"""Estimates of the time and memory of a run, from a model on the meta device and the measured speed of this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import nn

from glassformer.errors import Message
from glassformer.inference.run import SkipInit, build_model
from glassformer.machine import bf16_works, device
from glassformer.nn.embedding import Embedding
from glassformer.nn.positional_encoding import LearnedPositions
from glassformer.nn.recurrent import RecurrentLayer
from glassformer.settings import Settings

EFFICIENCY = {torch.float32: 0.6, torch.bfloat16: 0.35}  # speed of training relative to that of a matmul
KEPT = 1.4  # values kept for the backward pass, relative to the inputs and outputs of all matrices
LOGIT_ROWS = 512  # rows of logits in memory at a time
BASE_MEGABYTES = 300  # PyTorch itself
SPEED_SECONDS = 0.1  # duration of the speed measurement


@dataclass(frozen=True)
class Estimate:
    """A rough estimate of a run; the progress bar is more accurate after a minute."""

    minutes: float
    megabytes: float
    parameters: int

    @property
    def message(self) -> Message:
        """The estimate as one line."""
        return Message(
            "estimate: {millions} million parameters, at most about {minutes} minutes, about {megabytes} MB of memory",
            millions=f"{self.parameters / 1e6:.1f}",
            minutes=_two_digits(self.minutes),
            megabytes=_two_digits(self.megabytes),
        )


def estimate(settings: Settings, *, vocab: int, labels: int = 0) -> Estimate:
    """Estimate time and memory of a run on this machine. The time is at most `train.minutes`."""
    with torch.device("meta"), SkipInit():  # no memory is allocated: a model to be sharded may not fit
        model = build_model(settings, vocab, labels)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    s = settings.train
    rows = s.batch_tokens * (2 if s.consistency else 1)
    # 2 FLOPs per multiplication, forward, and twice as many backward.
    flops = 6 * multiplications_per_token(model) * s.steps * rows * s.accumulate
    kept = KEPT * sum(sum(weight.shape) for weight in _matrices(model) if vocab not in weight.shape)
    megabytes = (16 * parameters + 4 * rows * kept + 4 * LOGIT_ROWS * vocab) / 1e6 + BASE_MEGABYTES
    dtype = _matmul_dtype(model, s.precision)
    minutes = flops / (EFFICIENCY[dtype] * _matmul_speed(dtype)) / 60
    return Estimate(min(minutes, s.minutes or minutes), megabytes, parameters)


def _matmul_dtype(model: nn.Module, precision: str) -> torch.dtype:
    """Return the type in which most of the training is computed. Recurrent layers always compute in fp32."""
    is_recurrent = any(isinstance(module, RecurrentLayer) for module in model.modules())
    return torch.bfloat16 if precision == "bf16" and not is_recurrent and bf16_works() else torch.float32


def multiplications_per_token(model: nn.Module) -> int:
    """Return the multiplications of a forward pass per token (per source and target token), without attention scores.

    Every matrix is applied once per token, so this is the number of its elements. (`FlopCounterMode` cannot count on
    the meta device here: masks and packed sequences depend on the values of the tokens.)
    """
    return sum(weight.numel() for weight in _matrices(model))


def _matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return every matrix that is multiplied; tables that are only looked up (embeddings) are not."""
    multiplied = {
        id(weight): weight
        for module in model.modules()
        if not isinstance(module, Embedding | LearnedPositions)
        for weight in module.parameters(recurse=False)
        if weight.dim() > 1
    }
    return list(multiplied.values())


def _matmul_speed(dtype: torch.dtype) -> float:
    """Measure the floating-point operations per second of a matmul with the shape of a Transformer layer."""
    a, b = (torch.ones(shape, device=device(), dtype=dtype) for shape in ((1024, 256), (256, 1024)))
    for _ in range(10):
        torch.mm(a, b)
    rounds, began = 0, time.perf_counter()
    while (seconds := time.perf_counter() - began) < SPEED_SECONDS:
        float(torch.mm(a, b)[0, 0])  # reading a value waits for the GPU
        rounds += 1
    return rounds * 2 * 1024 * 256 * 1024 / seconds


def _two_digits(number: float) -> str:
    return f"{number:.1f}" if number < 10 else f"{float(f'{number:.2g}'):,.0f}"
