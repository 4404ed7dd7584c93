"""Dropout from random bytes.

Drawing one random number per value takes a fifth of a small model's training step on a CPU. Here one 64-bit draw
serves eight values, each compared with a threshold. The rate is therefore a multiple of 1/256 (0.1 becomes 0.1016);
kept values are scaled by the rate actually used, so the expectation is exact.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from glassformer.nn import fused

_NOTHING = torch.zeros(())


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, random_bytes: Tensor, threshold: int) -> Tensor:
        kept = random_bytes.view(x.shape) >= threshold
        ctx.save_for_backward(kept)
        ctx.scale = 256 / (256 - threshold)
        return torch.where(kept, x * ctx.scale, _NOTHING)  # faster than a product with the mask

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        return torch.where(kept, grads[0] * ctx.scale, _NOTHING), None, None


class Dropout(nn.Module):
    """Set some of the values to zero in training and scale the rest up; do nothing in evaluation.

    On a CPU the random numbers come from `generator`; None is the default generator of PyTorch.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.generator: torch.Generator | None = None

    @property
    def threshold(self) -> int:
        """Values whose random byte is below it are dropped; 0 in evaluation."""
        return min(255, round(self.rate * 256)) if self.training else 0

    def forward(self, x: Tensor) -> Tensor:
        threshold = self.threshold
        if threshold == 0:
            return x
        if x.device.type != "cpu":
            return nn.functional.dropout(x, self.rate)
        return _ByteDropout.apply(x, self._random_bytes(x.numel()), threshold)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x + Dropout(y), in one pass in bf16 training on a CPU."""
        if self.threshold and fused.adds(x, y):
            return fused.add_dropout(x, y, self._random_bytes(y.numel()), self.threshold)
        return x + self(y)

    def _random_bytes(self, count: int) -> Tensor:
        draws = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None, generator=self.generator)
        return draws.view(torch.uint8)[:count]

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
