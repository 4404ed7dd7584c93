"""Attention of recurrent decoders: which of the encoder's states to read, asked by the decoder's own state.

Keys and values both come from the encoder's states, and there is one head. The names of what can be seen are those of
the Transformer's attention (`scores`, `weights`, `context`), so the same views show it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.nn.attention import attend, weighted
from glassformer.nn.linear import Linear
from glassformer.nn.probe import NO_PROBE, Probe


class AdditiveAttention(nn.Module):
    """e_ij = v·tanh(W·s_{i−1} + U·h_j) (Bahdanau et al., 2015)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = Linear(d_model, d_model, bias=False)  # W
        self.key = Linear(d_model, d_model, bias=False)  # U
        self.score_D = nn.Parameter(torch.empty(d_model).normal_(std=d_model**-0.5))  # v

    def remember(self, memory_BSD: Tensor) -> Tensor:
        """U·h, once a sentence."""
        return self.key(memory_BSD)

    def forward(
        self, state_BQD: Tensor, key_BSD: Tensor, memory_BSD: Tensor, mask: Tensor | None, probe: Probe = NO_PROBE
    ) -> Tensor:
        query_BQD = probe("query", self.query(state_BQD))
        hidden_BQSD = torch.tanh(query_BQD[:, :, None] + key_BSD[:, None])
        scores_B1QS = probe("scores", (hidden_BQSD @ self.score_D)[:, None])
        return probe("context", weighted(scores_B1QS, memory_BSD[:, None], mask, probe))[:, 0]


class DotAttention(nn.Module):
    """e_ij = s_i·h_j (Luong et al., 2015)."""

    def remember(self, memory_BSD: Tensor) -> Tensor:
        return memory_BSD

    def forward(
        self, state_BQD: Tensor, key_BSD: Tensor, memory_BSD: Tensor, mask: Tensor | None, probe: Probe = NO_PROBE
    ) -> Tensor:
        query_B1QD, key_B1SD, value_B1SD = (x[:, None] for x in (state_BQD, key_BSD, memory_BSD))
        return probe("context", attend(query_B1QD, key_B1SD, value_B1SD, mask, probe, scaled=False))[:, 0]


class GeneralAttention(DotAttention):
    """e_ij = s_i·W·h_j (Luong et al., 2015)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.key = Linear(d_model, d_model, bias=False)

    def remember(self, memory_BSD: Tensor) -> Tensor:
        """W·h, once a sentence."""
        return self.key(memory_BSD)


class AttentionalState(nn.Module):
    """tanh(W·[c; s]): what was read and the state that asked for it, in one (Luong et al., 2015, eq. 5)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.combine = Linear(2 * d_model, d_model, bias=False)

    def forward(self, context_BTD: Tensor, state_BTD: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        return probe("output", torch.tanh(self.combine(torch.cat([context_BTD, state_BTD], dim=-1))))
