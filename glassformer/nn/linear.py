"""The matmul, x·Wᵀ + b. Every weight matrix of a model is one of these: how it is computed is exchanged here.

In training it is PyTorch's. For decoding, `pack` lays the weights out once, in the order in which the processor
reads them (fp32), or as 8-bit integers (int8): a decoder step reads every weight for a handful of rows, so what
counts is how many bytes that is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Product = Callable[[Tensor], Tensor]

FEW_ROWS = 8  # below, the plain product is faster than the packed one


class Linear(nn.Linear):
    """Projections D → D' side by side in one matrix, `parts` of them: one matmul instead of several."""

    def __init__(self, inputs: int, outputs: int, *, parts: int = 1) -> None:
        super().__init__(inputs, parts * outputs)
        self._packed: Product | None = None
        with torch.no_grad():
            for block in self.weight.chunk(parts):  # each projection has the variance of its own shape
                nn.init.xavier_uniform_(block)
            self.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias) if self._packed is None else self._packed(x)

    def pack(self, precision: str) -> None:
        self._packed = packed(self.weight.detach(), self.bias.detach(), precision)
        if precision == "int8":  # nothing reads them any more, and they are four times as large
            self.register_parameter("weight", None)
            self.register_parameter("bias", None)


def pack_weights(model: nn.Module, precision: str) -> None:
    """Makes a model fast for decoding, on a CPU: "fp32" or "int8". It is not to be trained afterwards."""
    for module in model.modules():
        if callable(pack := getattr(module, "pack", None)):
            pack(precision)


def packed(weight: Tensor, bias: Tensor | None, precision: str) -> Product:
    return _int8(weight, bias) if precision == "int8" else _fp32(weight, bias)


def _fp32(weight: Tensor, bias: Tensor | None) -> Product:
    """oneDNN's blocked layout; equal to the plain product but for the order of the sums."""
    if not torch.backends.mkldnn.is_available():
        return lambda x: F.linear(x, weight, bias)
    blocked = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 64)

    def product(x: Tensor) -> Tensor:
        if x.numel() < FEW_ROWS * x.shape[-1]:
            return F.linear(x, weight, bias)
        return torch.ops.mkldnn._linear_pointwise(x, blocked, bias, "none", [], "")

    return product


def _int8(weight: Tensor, bias: Tensor | None) -> Product:
    """Weights as integers with one scale a row; the input is scaled to integers on the fly (FBGEMM)."""
    scale = (weight.abs().amax(dim=1) / 127).clamp_min(1e-8).double()
    zero = torch.zeros(len(scale), dtype=torch.long)
    with warnings.catch_warnings():  # PyTorch means to drop this type of tensor, and offers nothing as fast yet
        warnings.simplefilter("ignore")
        integers = torch.quantize_per_channel(weight.contiguous(), scale, zero, 0, torch.qint8)
    block = torch.ops.quantized.linear_prepack(integers, bias)
    return lambda x: torch.ops.quantized.linear_dynamic(x, block, False)
