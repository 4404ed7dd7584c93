"""Token embedding: token ids to vectors (§3.4). The output layer may share its matrix: `output_projection.py`."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.reference import embeddings as ops
from glassformer.reference.layers import scale_embedding


class Embedding(nn.Module):
    """A learned vector per token, multiplied by √d_model (§3.4) unless `scaled` is False."""

    def __init__(self, vocab: int, d_model: int, *, scaled: bool = True) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model) if scaled else 1.0
        # After the multiplication the entries have variance 1, on the scale of the positional encodings.
        self.weight_VD = nn.Parameter(torch.empty(vocab, d_model).normal_(std=d_model**-0.5))

    def forward(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return B×T×D. A probe sees `tokens`, `vectors` (rows of the table) and `embedding` (scaled)."""
        tokens_BT = probe("tokens", tokens_BT, ops.model_input)
        vectors_BTD = F.embedding(tokens_BT, self.weight_VD)
        vectors_BTD = probe("vectors", vectors_BTD, ops.token_embedding, tokens_BT, self.weight_VD)
        if self.scale == 1:
            return probe("embedding", vectors_BTD)
        return probe("embedding", vectors_BTD * self.scale, scale_embedding, vectors_BTD, self.scale)
