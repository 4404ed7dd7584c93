"""The linear layer, x·Wᵀ + b. Every weight matrix of a model is one of these."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.probe import Rows


class Linear(nn.Module):
    """`parts` projections D → D' packed in one matrix: one matmul instead of several.

    With `relu`, negative results become zero.
    """

    def __init__(self, inputs: int, outputs: int, *, parts: int = 1, bias: bool = True, relu: bool = False) -> None:
        super().__init__()
        self.outputs, self.parts, self.relu = outputs, parts, relu
        self.weight = nn.Parameter(torch.empty(parts * outputs, inputs))
        self.bias: nn.Parameter | None
        self.register_parameter("bias", nn.Parameter(torch.zeros(parts * outputs)) if bias else None)
        for block in self.weight.detach().chunk(parts):  # each projection has the variance of its own shape
            nn.init.xavier_uniform_(block)

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        return y.relu() if self.relu else y  # in place, autograd would copy the gradient three times: y is a view

    def part(self, i: int = 0) -> tuple[Tensor | Rows | None, Tensor | Rows | None]:
        """Return weight and bias of the i-th projection, as operands of a probe."""
        if self.parts == 1:
            return self.weight, self.bias
        start, stop = i * self.outputs, (i + 1) * self.outputs
        return Rows(self.weight, start, stop), None if self.bias is None else Rows(self.bias, start, stop)
