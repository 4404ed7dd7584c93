"""Layer normalization, and Add & Norm: the residual connection and normalization around a sub-layer (§3.1).

Batch normalization is in `models/ablations.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from glassformer.nn import fused
from glassformer.nn.dropout import Dropout
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.reference import layers as ops

SubLayer = Callable[[Tensor], Tensor]

EPSILON = 1e-5  # added to the variance, so that the deviation is never zero


class LayerNorm(nn.Module):
    """(x − mean) / deviation over the model width, then scaled and shifted by learned vectors.

    With `autocast`, the result may be in bf16 in bf16 training, as that of a linear layer: for a result that only
    linear layers read.
    """

    def __init__(self, d_model: int, epsilon: float = EPSILON, *, autocast: bool = False) -> None:
        super().__init__()
        self.epsilon, self.autocast = epsilon, autocast
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x_BTD: Tensor, probe: Probe = NO_PROBE, name: str = "norm") -> Tensor:
        """Return B×T×D. A probe sees `mean`, `deviation`, and the result under `name`."""
        if probe.wants("mean"):
            probe("mean", x_BTD.mean(-1, keepdim=True), ops.mean, x_BTD)
        if probe.wants("deviation"):
            variance_BT1 = x_BTD.var(-1, keepdim=True, unbiased=False)
            probe("deviation", (variance_BT1 + self.epsilon).sqrt(), ops.deviation, x_BTD, "mean", self.epsilon)
        normed_BTD = self.normalize(x_BTD)
        return probe(name, normed_BTD, ops.normalize, x_BTD, "mean", "deviation", self.weight, self.bias)

    def normalize(self, x_BTD: Tensor) -> Tensor:
        """Return the normalized rows."""
        if self.autocast and fused.normalizes(x_BTD):
            return fused.layer_norm(x_BTD, self.weight, self.bias, self.epsilon)
        return torch.layer_norm(x_BTD, self.weight.shape, self.weight, self.bias, self.epsilon)


class Residual(nn.Module):
    """The residual connection, x + Dropout(y), where y = SubLayer(x). A probe is for evaluation, without dropout."""

    def forward(self, x_BTD: Tensor, y_BTD: Tensor, dropout: Dropout, probe: Probe = NO_PROBE) -> Tensor:
        return probe("residual", dropout.add(x_BTD, y_BTD), ops.residual, x_BTD, y_BTD)


class AddNorm(nn.Module):
    """Add & Norm around a sub-layer. `PostNorm` and `PreNorm` normalize at different places."""

    def __init__(self, d_model: int, dropout: float, *, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.norm: nn.Module = LayerNorm(d_model, epsilon)
        self.add: nn.Module = Residual()
        self.dropout = Dropout(dropout)


class PostNorm(AddNorm):
    """LayerNorm(x + Dropout(SubLayer(x))), as in the paper (§3.1, §5.4)."""

    def forward(self, x_BTD: Tensor, sub_layer: SubLayer, probe: Probe = NO_PROBE) -> Tensor:
        sum_BTD = self.add(x_BTD, sub_layer(x_BTD), self.dropout, probe)
        return self.norm(sum_BTD, probe)


class PreNorm(AddNorm):
    """x + Dropout(SubLayer(LayerNorm(x))): trains without warmup, and deeper. Not in the paper."""

    def __init__(self, d_model: int, dropout: float, *, epsilon: float = EPSILON) -> None:
        super().__init__(d_model, dropout, epsilon=epsilon)
        self.norm = LayerNorm(d_model, epsilon, autocast=True)

    def forward(self, x_BTD: Tensor, sub_layer: SubLayer, probe: Probe = NO_PROBE) -> Tensor:
        normed_BTD = self.norm(x_BTD, probe)
        return self.add(x_BTD, sub_layer(normed_BTD), self.dropout, probe)
