"""The linear layer, x·Wᵀ + b. Every weight matrix of a model is one of these.

In training the product is PyTorch's. For decoding, `pack` lays the weights out once: in the order in which the
processor reads them (fp32), or as 8-bit integers (int8). A decoder step reads every weight for a handful of rows, so
its time depends on the number of bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer import machine
from glassformer.nn.probe import Rows

Product = Callable[[Tensor], Tensor]


class Linear(nn.Module):
    """`parts` projections D → D' packed in one matrix: one matmul instead of several.

    With `relu`, negative results become zero in the same pass.
    """

    def __init__(self, inputs: int, outputs: int, *, parts: int = 1, bias: bool = True, relu: bool = False) -> None:
        super().__init__()
        self.outputs, self.parts, self.relu = outputs, parts, relu
        self.weight = nn.Parameter(torch.empty(parts * outputs, inputs))
        self.bias: nn.Parameter | None
        self.register_parameter("bias", nn.Parameter(torch.zeros(parts * outputs)) if bias else None)
        self.product: Product = self._plain
        for block in self.weight.detach().chunk(parts):  # each projection has the variance of its own shape
            nn.init.xavier_uniform_(block)

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x)

    def part(self, i: int = 0) -> tuple[Tensor | Rows | None, Tensor | Rows | None]:
        """Weight and bias of the i-th projection, as operands of a probe."""
        if self.parts == 1:
            return self.weight, self.bias
        start, stop = i * self.outputs, (i + 1) * self.outputs
        return Rows(self.weight, start, stop), None if self.bias is None else Rows(self.bias, start, stop)

    def pack(self, precision: str) -> None:
        """Lay out the weights for decoding. The layer must not be trained afterwards."""
        if precision == "int8":
            bias = None if self.bias is None else self.bias.detach()
            self.product = int8_product(self.weight.detach(), bias, relu=self.relu)
            self.register_parameter("weight", None)  # no longer needed, and four times as large
            self.register_parameter("bias", None)
        else:
            self.weight.data = input_major(self.weight.detach())

    def _plain(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        return y.relu_() if self.relu else y


def pack_weights(model: nn.Module, precision: str) -> None:
    """Lay out the weights of a model for decoding on a CPU, as "fp32" or "int8". It must not be trained afterwards."""
    for module in model.modules():
        pack(module, precision)


def pack(module: nn.Module, precision: str) -> None:
    """Lay out the weights of a module, without those of its submodules."""
    if callable(method := getattr(module, "pack", None)):
        method(precision)


def input_major(weight: Tensor) -> Tensor:
    """Return the same matrix stored by columns: the weights of one input are contiguous in memory.

    The product of a few rows then reads it in order: a tenth faster from 32 rows on, no slower for one row.
    """
    return weight.mT.contiguous().mT


def fp32_product(weight: Tensor) -> Product:
    weight = input_major(weight)
    return lambda x: F.linear(x, weight)


def int8_product(weight: Tensor, bias: Tensor | None, *, relu: bool = False) -> Product:
    """Return x·Wᵀ + b with int8 weights, one scale per row; the activations are quantized per call (FBGEMM)."""
    block = torch.ops.quantized.linear_prepack(quantize_rows(weight, limit=machine.int8_weight_limit()), bias)
    kernels = torch.ops.quantized
    # `_op` is the kernel itself: the call around it checks each argument, which is a tenth of a small product.
    multiply = (kernels.linear_relu_dynamic if relu else kernels.linear_dynamic).default._op
    return lambda x: multiply(x, block, False)


def quantize_rows(weight: Tensor, *, limit: int) -> Tensor:
    """Quantize each row to the integers −limit … limit, with a scale of its own."""
    scale = (weight.abs().amax(dim=1) / limit).clamp_min(1e-8).double()
    zero = torch.zeros(len(scale), dtype=torch.long)
    with warnings.catch_warnings():  # PyTorch has deprecated quantized tensors, and offers nothing as fast yet
        warnings.simplefilter("ignore")
        return torch.quantize_per_channel(weight.contiguous(), scale, zero, 0, torch.qint8)
