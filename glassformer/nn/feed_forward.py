"""The position-wise feed-forward network (§3.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.linear import Linear
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.reference import layers as ops

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,  # x·Φ(x), as in BERT
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # an approximation of it, as in GPT-2
    "swish": F.silu,
    "relu": F.relu,
}


class FeedForward(nn.Module):
    """max(0, x·W_1 + b_1)·W_2 + b_2, the same for every position; or another activation in place of max(0, …)."""

    def __init__(self, d_model: int, d_ff: int, *, activation: str = "relu") -> None:
        super().__init__()
        self.activation = activation
        self.expand = Linear(d_model, d_ff, relu=activation == "relu")
        self.contract = Linear(d_ff, d_model)

    def forward(self, x_BTD: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        hidden_BTF = self.activate(self.expand(x_BTD))
        hidden_BTF = probe("activations", hidden_BTF, ops.ACTIVATIONS[self.activation], x_BTD, *self.expand.part())
        return probe("output", self.contract(hidden_BTF), ops.feed_forward_output, hidden_BTF, *self.contract.part())

    def activate(self, x_BTF: Tensor) -> Tensor:
        """Apply the activation, unless the matmul did."""
        return x_BTF if self.activation == "relu" else ACTIVATIONS[self.activation](x_BTF)
