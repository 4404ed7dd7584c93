"""The numbers that training computes with."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn


def autocast(model: nn.Module, precision: str) -> contextlib.AbstractContextManager[Any]:
    """bf16 inside the block if that is the precision; weights, sums and moments stay fp32."""
    if precision == "bf16":
        return torch.autocast(next(model.parameters()).device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()
