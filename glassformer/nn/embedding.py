"""Token ids to vectors, and vectors to a distribution over tokens (§3.4)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.linear import Product, fp32_product, int8_product
from glassformer.nn.loss import smoothed_cross_entropy
from glassformer.nn.probe import NO_PROBE, Probe


class Embedding(nn.Module):
    """A learned vector for each token, multiplied by √d_model (§3.4); as it is where not `scaled`."""

    def __init__(self, vocab: int, d_model: int, *, scaled: bool = True) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model) if scaled else 1.0
        # Drawn so small that after the multiplication the entries have variance 1, on the scale of the positions.
        self.weight_VD = nn.Parameter(torch.empty(vocab, d_model).normal_(std=d_model**-0.5))

    def forward(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        vectors_BTD = probe("vectors", F.embedding(probe("tokens", tokens_BT), self.weight_VD))
        return probe("embedding", vectors_BTD if self.scale == 1 else vectors_BTD * self.scale)


class OutputLayer(nn.Module):
    """The linear layer before the softmax. Its matrix may be that of an embedding, as in the paper.

    With `bias`, something is added to each logit, which is not learnt: `NEVER` for an entry that is never written.
    """

    NEVER = -1e4  # e^NEVER is 0, and sums of it are still numbers

    def __init__(self, weight_VD: nn.Parameter, *, bias: bool = False) -> None:
        super().__init__()
        self.weight_VD = weight_VD
        self.bias_V: Tensor | None
        self.register_buffer("bias_V", torch.zeros(len(weight_VD)) if bias else None)
        self.product: Product = self._plain

    def forward(self, hidden_BTD: Tensor) -> Tensor:
        logits_BTV = self.product(hidden_BTD)
        return logits_BTV if self.bias_V is None else logits_BTV + self.bias_V

    def pack(self, precision: str) -> None:
        weight_VD = self.weight_VD.detach()
        self.product = int8_product(weight_VD, None) if precision == "int8" else fp32_product(weight_VD)

    def _plain(self, hidden_BTD: Tensor) -> Tensor:
        return F.linear(hidden_BTD, self.weight_VD)

    def loss(self, hidden_ND: Tensor, target_N: Tensor, smoothing: float) -> Tensor:
        """Summed cross-entropy of this layer's softmax, without ever holding all of its logits."""
        return smoothed_cross_entropy(hidden_ND, self.weight_VD, target_N, smoothing, self.bias_V)
