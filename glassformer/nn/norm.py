"""Normalisation, and the two places where it can stand around a sub-layer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from glassformer.nn.dropout import Dropout
from glassformer.nn.probe import NO_PROBE, Probe

SubLayer = Callable[[Tensor], Tensor]

EPSILON = 1e-5  # keeps the deviation from being zero


class LayerNorm(nn.Module):
    """(x − mean) / deviation over the model width, then scaled and shifted by learned vectors."""

    def __init__(self, d_model: int, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x_BTD: Tensor, probe: Probe = NO_PROBE, real_BT: Tensor | None = None) -> Tensor:
        if probe.wants("mean"):
            probe("mean", x_BTD.mean(-1, keepdim=True))
        if probe.wants("deviation"):
            probe("deviation", (x_BTD.var(-1, keepdim=True, unbiased=False) + self.epsilon).sqrt())
        return self.normalize(x_BTD)

    def normalize(self, x_BTD: Tensor) -> Tensor:
        weight = self.weight
        return torch.layer_norm(x_BTD, weight.shape, weight, self.bias, self.epsilon)


class BatchNorm(nn.Module):
    """(x − mean) / deviation of each feature over all tokens of the batch (Ioffe & Szegedy, 2015). Not in the paper.

    In training the tokens of a batch see each other by it, those to come too; padding is left out where `real_BT`
    says which tokens are none. Otherwise it goes by the running statistics of training, which are saved with the
    weights.
    """

    MOMENTUM = 0.1

    def __init__(self, d_model: int, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.mean_D: Tensor
        self.variance_D: Tensor
        self.register_buffer("mean_D", torch.zeros(d_model))
        self.register_buffer("variance_D", torch.ones(d_model))

    def forward(self, x_BTD: Tensor, probe: Probe = NO_PROBE, real_BT: Tensor | None = None) -> Tensor:
        mean_D, variance_D = self._of_batch(x_BTD, real_BT) if self.training else (self.mean_D, self.variance_D)
        deviation_D = (variance_D + self.epsilon).sqrt()
        probe("mean", mean_D)
        probe("deviation", deviation_D)
        return (x_BTD - mean_D) * (self.weight / deviation_D) + self.bias

    def normalize(self, x_BTD: Tensor) -> Tensor:
        """By the running statistics."""
        return torch.batch_norm(
            x_BTD.flatten(0, 1),
            self.weight,
            self.bias,
            self.mean_D,
            self.variance_D,
            False,
            0.0,
            self.epsilon,
            False,
        ).view(x_BTD.shape)

    def _of_batch(self, x_BTD: Tensor, real_BT: Tensor | None) -> tuple[Tensor, Tensor]:
        x_ND = (x_BTD.flatten(0, 1) if real_BT is None else x_BTD[real_BT]).float()
        variance_D, mean_D = torch.var_mean(x_ND, dim=0, correction=0)
        with torch.no_grad():
            for running_D, new_D in ((self.mean_D, mean_D), (self.variance_D, variance_D)):
                # A step whose numbers ran away is skipped, and should leave no trace here either.
                running_D.lerp_(torch.where(new_D.isfinite(), new_D, running_D), self.MOMENTUM)
        return mean_D, variance_D


class NoNorm(nn.Module):
    """Leaves everything as it is: there to see what normalisation does."""

    def __init__(self, d_model: int, epsilon: float = EPSILON) -> None:
        super().__init__()

    def forward(self, x_BTD: Tensor, probe: Probe = NO_PROBE, real_BT: Tensor | None = None) -> Tensor:
        return x_BTD

    def normalize(self, x_BTD: Tensor) -> Tensor:
        return x_BTD


NORMALIZERS: dict[str, type[LayerNorm] | type[BatchNorm] | type[NoNorm]] = {
    "layer": LayerNorm,
    "batch": BatchNorm,
    "none": NoNorm,
}


class Around(nn.Module):
    """What stands around a sub-layer: normalisation, dropout, and the residual connection, unless it is left out."""

    def __init__(
        self,
        d_model: int,
        dropout: float,
        *,
        normalize: str = "layer",
        residual: bool = True,
        epsilon: float = EPSILON,
    ) -> None:
        super().__init__()
        self.norm, self.dropout, self.residual = NORMALIZERS[normalize](d_model, epsilon), Dropout(dropout), residual

    def add(self, x_BTD: Tensor, y_BTD: Tensor, probe: Probe) -> Tensor:
        return probe("residual", x_BTD + y_BTD) if self.residual else y_BTD

    def add_(self, x_BTD: Tensor, y_BTD: Tensor) -> Tensor:
        """The same, written over y."""
        return y_BTD.add_(x_BTD) if self.residual else y_BTD


class PostNorm(Around):
    """LayerNorm(x + Dropout(SubLayer(x))): as the paper has it (§3.1, §5.4)."""

    def forward(
        self, x_BTD: Tensor, sub_layer: SubLayer, probe: Probe = NO_PROBE, real_BT: Tensor | None = None
    ) -> Tensor:
        sum_BTD = self.add(x_BTD, self.dropout(sub_layer(x_BTD)), probe)
        return probe("norm", self.norm(sum_BTD, probe, real_BT))

    def lean(self, x_BTD: Tensor, sub_layer: Callable[..., Tensor], *inputs: object) -> Tensor:
        """`forward` in inference, when nobody looks. The sub-layer's output is written over."""
        return self.norm.normalize(self.add_(x_BTD, sub_layer(x_BTD, *inputs)))


class PreNorm(Around):
    """x + Dropout(SubLayer(LayerNorm(x))): trains without warm-up, and deeper. Not in the paper."""

    def forward(
        self, x_BTD: Tensor, sub_layer: SubLayer, probe: Probe = NO_PROBE, real_BT: Tensor | None = None
    ) -> Tensor:
        normed_BTD = probe("norm", self.norm(x_BTD, probe, real_BT))
        return self.add(x_BTD, self.dropout(sub_layer(normed_BTD)), probe)

    def lean(self, x_BTD: Tensor, sub_layer: Callable[..., Tensor], *inputs: object) -> Tensor:
        """`forward` in inference, when nobody looks. The sub-layer's output is written over."""
        return self.add_(x_BTD, sub_layer(self.norm.normalize(x_BTD), *inputs))
