"""Layer normalisation, and the two places where it can stand around a sub-layer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from glassformer.nn.dropout import Dropout
from glassformer.nn.probe import NO_PROBE, Probe

SubLayer = Callable[[Tensor], Tensor]


class LayerNorm(nn.Module):
    """(x − mean) / deviation over the model width, then scaled and shifted by learned vectors."""

    EPSILON = 1e-5

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x_BTD: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        if probe.wants("mean"):
            probe("mean", x_BTD.mean(-1, keepdim=True))
        if probe.wants("deviation"):
            probe("deviation", (x_BTD.var(-1, keepdim=True, unbiased=False) + self.EPSILON).sqrt())
        return self.normalize(x_BTD)

    def normalize(self, x_BTD: Tensor) -> Tensor:
        weight = self.weight
        return torch.layer_norm(x_BTD, weight.shape, weight, self.bias, self.EPSILON)


class PostNorm(nn.Module):
    """LayerNorm(x + Dropout(SubLayer(x))): as the paper has it (§3.1, §5.4)."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = LayerNorm(d_model), Dropout(dropout)

    def forward(self, x_BTD: Tensor, sub_layer: SubLayer, probe: Probe = NO_PROBE) -> Tensor:
        sum_BTD = probe("residual", x_BTD + self.dropout(sub_layer(x_BTD)))
        return probe("norm", self.norm(sum_BTD, probe))

    def lean(self, x_BTD: Tensor, sub_layer: Callable[..., Tensor], *inputs: object) -> Tensor:
        """`forward` in inference, when nobody looks. The sub-layer's output is written over."""
        return self.norm.normalize(sub_layer(x_BTD, *inputs).add_(x_BTD))


class PreNorm(nn.Module):
    """x + Dropout(SubLayer(LayerNorm(x))): trains without warm-up, and deeper. Not in the paper."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = LayerNorm(d_model), Dropout(dropout)

    def forward(self, x_BTD: Tensor, sub_layer: SubLayer, probe: Probe = NO_PROBE) -> Tensor:
        normed_BTD = probe("norm", self.norm(x_BTD, probe))
        return probe("residual", x_BTD + self.dropout(sub_layer(normed_BTD)))

    def lean(self, x_BTD: Tensor, sub_layer: Callable[..., Tensor], *inputs: object) -> Tensor:
        """`forward` in inference, when nobody looks. The sub-layer's output is written over."""
        return sub_layer(self.norm.normalize(x_BTD), *inputs).add_(x_BTD)
