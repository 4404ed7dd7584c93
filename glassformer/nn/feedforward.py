"""The position-wise feed-forward network (§3.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.linear import Linear
from glassformer.nn.probe import NO_PROBE, Probe

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,  # x·Φ(x), BERT's
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # GPT-2's, which is nearly the same
    "swish": F.silu,
    "relu": F.relu,
}


class FeedForward(nn.Module):
    """max(0, x·W_1 + b_1)·W_2 + b_2, the same for every position; or another activation in the place of max(0, …)."""

    def __init__(self, d_model: int, d_ff: int, *, activation: str = "relu") -> None:
        super().__init__()
        self.activation = activation
        self.expand = Linear(d_model, d_ff, relu=activation == "relu")  # the matmul does it in the same pass
        self.contract = Linear(d_ff, d_model)

    def forward(self, x_BTD: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        hidden_BTF = self._activated(self.expand(x_BTD))
        return probe("output", self.contract(probe("activations", hidden_BTF)))

    def lean(self, x_BTD: Tensor) -> Tensor:
        """`forward`, when nobody looks."""
        return self.contract.product(self._activated(self.expand.product(x_BTD)))

    def _activated(self, x_BTF: Tensor) -> Tensor:
        return x_BTF if self.activation == "relu" else ACTIVATIONS[self.activation](x_BTF)
