"""The position-wise feed-forward network (§3.3)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.linear import Linear
from glassformer.nn.probe import NO_PROBE, Probe


class FeedForward(nn.Module):
    """max(0, x·W_1 + b_1)·W_2 + b_2, the same for every position. BERT and ViT have GELU instead of max(0, ·)."""

    def __init__(self, d_model: int, d_ff: int, *, activation: str = "relu") -> None:
        super().__init__()
        self.expand = Linear(d_model, d_ff, relu=activation == "relu")  # in the same pass
        self.contract = Linear(d_ff, d_model)
        self.gelu = activation == "gelu"

    def forward(self, x_BTD: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        hidden_BTF = probe("activations", self._activated(self.expand(x_BTD)))
        return probe("output", self.contract(hidden_BTF))

    def lean(self, x_BTD: Tensor) -> Tensor:
        """`forward`, when nobody looks."""
        return self.contract.product(self._activated(self.expand.product(x_BTD)))

    def _activated(self, hidden_BTF: Tensor) -> Tensor:
        return F.gelu(hidden_BTF) if self.gelu else hidden_BTF
