"""Ablations: Transformers in which one part is removed or replaced, to measure its contribution.

The layers have no flags for this: a model is built as usual, and then its parts are replaced. `model.ablations` names
the changes, so that such a run can be loaded again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.models.transformer import Memory, Transformer
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.dropout import Dropout
from glassformer.nn.masks import Mask, padding_mask
from glassformer.nn.norm import EPSILON, AddNorm, LayerNorm
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.reference import layers as ops
from glassformer.settings import TransformerSettings, ViTSettings


class BatchNorm(nn.Module):
    """(x − mean) / deviation of each dimension over all tokens of the batch (Ioffe & Szegedy, 2015).

    In training, all tokens of a batch, later ones included, influence each other; `real_BT` marks the tokens that are
    not padding. In evaluation it uses the running statistics of training, which are saved with the weights.
    """

    MOMENTUM = 0.1

    def __init__(self, d_model: int, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.real_BT: Tensor | None = None
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.mean_D: Tensor
        self.variance_D: Tensor
        self.register_buffer("mean_D", torch.zeros(d_model))
        self.register_buffer("variance_D", torch.ones(d_model))

    def forward(self, x_BTD: Tensor, probe: Probe = NO_PROBE, name: str = "norm") -> Tensor:
        mean_D, variance_D = self._of_batch(x_BTD) if self.training else (self.mean_D, self.variance_D)
        deviation_D = (variance_D + self.epsilon).sqrt()
        if not self.training:
            probe("mean", mean_D, ops.running_mean, self.mean_D)
            probe("deviation", deviation_D, ops.running_deviation, self.variance_D, self.epsilon)
        normed_BTD = (x_BTD - mean_D) * (self.weight / deviation_D) + self.bias
        return probe(name, normed_BTD, ops.normalize, x_BTD, "mean", "deviation", self.weight, self.bias)

    def normalize(self, x_BTD: Tensor) -> Tensor:
        """Normalize by the running statistics."""
        return self(x_BTD)

    def _of_batch(self, x_BTD: Tensor) -> tuple[Tensor, Tensor]:
        x_ND = (x_BTD.flatten(0, 1) if self.real_BT is None else x_BTD[self.real_BT]).float()
        variance_D, mean_D = torch.var_mean(x_ND, dim=0, correction=0)
        with torch.no_grad():
            for running_D, new_D in ((self.mean_D, mean_D), (self.variance_D, variance_D)):
                # The trainer skips a step with non-finite values; it must not change the running statistics either.
                running_D.lerp_(torch.where(new_D.isfinite(), new_D, running_D), self.MOMENTUM)
        return mean_D, variance_D


class NoNorm(nn.Module):
    """No normalization: returns its input."""

    def __init__(self, d_model: int, epsilon: float = EPSILON) -> None:
        super().__init__()

    def forward(self, x_BTD: Tensor, probe: Probe = NO_PROBE, name: str = "norm") -> Tensor:
        return probe(name, x_BTD)

    def normalize(self, x_BTD: Tensor) -> Tensor:
        return x_BTD


class NoResidual(nn.Module):
    """Dropout(SubLayer(x)) in place of x + Dropout(SubLayer(x))."""

    def forward(self, x_BTD: Tensor, y_BTD: Tensor, dropout: Dropout, probe: Probe = NO_PROBE) -> Tensor:
        return dropout(y_BTD)


NORMS: dict[str, type[BatchNorm] | type[NoNorm]] = {"batch_norm": BatchNorm, "no_norm": NoNorm}


def ablate(model: nn.Module, ablations: Iterable[str]) -> None:
    """Replace parts of a newly built model, in place."""
    for ablation in ablations:
        for module in list(model.modules()):
            if ablation in NORMS:
                _exchange_norms(module, NORMS[ablation])
            elif ablation == "no_residual" and isinstance(module, AddNorm):
                module.add = NoResidual()
            elif ablation == "no_scaling" and isinstance(module, MultiHeadAttention):
                module.scaled = False


def _exchange_norms(module: nn.Module, norm: type[BatchNorm] | type[NoNorm]) -> None:
    for name, child in module.named_children():
        if isinstance(child, LayerNorm):
            setattr(module, name, norm(len(child.weight), child.epsilon))


class AblatedTransformer(Transformer):
    """A Transformer with `ablations`. Besides the parts, a missing look-ahead mask changes its wiring."""

    def __init__(self, s: TransformerSettings, vocab: int, *, pad: int) -> None:
        super().__init__(s, vocab, pad=pad)
        ablate(self, s.ablations)
        self.sees_future = "no_look_ahead_mask" in s.ablations

    def target_mask(self, target_BT: Tensor) -> Mask | None:
        if self.sees_future:  # the model sees the tokens that it should predict, and learns to copy them
            return padding_mask(target_BT, self.pad)
        return super().target_mask(target_BT)

    def encode(self, source_BS: Tensor, probe: Probe = NO_PROBE) -> Memory:
        self._tell_padding((self.encoder, self.encoder_norm), source_BS)
        return super().encode(source_BS, probe)

    def _embed_target(self, target_NT: Tensor, start: int, probe: Probe) -> Tensor:
        self._tell_padding((self.decoder, self.decoder_norm), target_NT)
        return super()._embed_target(target_NT, start, probe)

    def _tell_padding(self, parts: tuple[nn.Module | None, ...], tokens_BT: Tensor) -> None:
        """Tell batch normalization which tokens of a training batch are not padding."""
        for part in parts:
            for module in () if part is None else part.modules():
                if isinstance(module, BatchNorm):
                    module.real_BT = tokens_BT != self.pad if self.training else None


def with_ablations(family: Any, s: Any) -> Any:
    """Return a constructor that builds a family with the ablations of its settings."""
    if isinstance(s, TransformerSettings) and s.ablations:
        return AblatedTransformer
    if isinstance(s, ViTSettings) and s.ablations:
        return lambda s: _ablated(family(s), s.ablations)
    return family


def _ablated(model: nn.Module, ablations: Iterable[str]) -> nn.Module:
    ablate(model, ablations)
    return model
