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
    """A learned vector for each token, multiplied by √d_model (§3.4)."""

    def __init__(self, vocab: int, d_model: int) -> None:
        super().__init__()
        # Drawn so small that after the multiplication the entries have variance 1, on the scale of the positions.
        self.weight_VD = nn.Parameter(torch.empty(vocab, d_model).normal_(std=d_model**-0.5))

    def forward(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        vectors_BTD = probe("vectors", F.embedding(probe("tokens", tokens_BT), self.weight_VD))
        return probe("embedding", vectors_BTD * math.sqrt(self.weight_VD.shape[1]))


class OutputLayer(nn.Module):
    """The linear layer before the softmax. Its matrix may be that of an embedding, as in the paper."""

    def __init__(self, weight_VD: nn.Parameter) -> None:
        super().__init__()
        self.weight_VD = weight_VD
        self.product: Product = self._plain

    def forward(self, hidden_BTD: Tensor) -> Tensor:
        return self.product(hidden_BTD)

    def pack(self, precision: str) -> None:
        weight_VD = self.weight_VD.detach()
        self.product = int8_product(weight_VD, None) if precision == "int8" else fp32_product(weight_VD)

    def _plain(self, hidden_BTD: Tensor) -> Tensor:
        return F.linear(hidden_BTD, self.weight_VD)

    def loss(self, hidden_ND: Tensor, target_N: Tensor, smoothing: float) -> Tensor:
        """Summed cross-entropy of this layer's softmax, without ever holding all of its logits."""
        return smoothed_cross_entropy(hidden_ND, self.weight_VD, target_N, smoothing)
