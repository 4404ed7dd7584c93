"""Attention of recurrent decoders: alignment scores between the decoder's state and the encoder's states.

Keys and values both come from the encoder's states, and there is one head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.nn.attention import attend, weighted_values
from glassformer.nn.linear import Linear
from glassformer.nn.masks import Mask
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.reference import attention as ops
from glassformer.reference.layers import projection


class AdditiveAttention(nn.Module):
    """e_ij = v·tanh(W·s_{i−1} + U·h_j) (Bahdanau et al., 2015)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = Linear(d_model, d_model, bias=False)  # W
        self.key = Linear(d_model, d_model, bias=False)  # U
        self.score_D = nn.Parameter(torch.empty(d_model).normal_(std=d_model**-0.5))  # v

    def keys(self, memory_BSD: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return U·h, which is computed once per sentence."""
        return probe("key", self.key(memory_BSD), projection, memory_BSD, *self.key.part())

    def forward(
        self, state_BQD: Tensor, key_BSD: Tensor, memory_BSD: Tensor, mask: Mask | None, probe: Probe = NO_PROBE
    ) -> Tensor:
        """Return the context vectors, B×Q×D."""
        query_BQD = probe("query", self.query(state_BQD), projection, state_BQD, *self.query.part())
        hidden_BQSD = torch.tanh(query_BQD[:, :, None] + key_BSD[:, None])
        energies_B1QS = (hidden_BQSD @ self.score_D)[:, None]
        energies_B1QS = probe("energies", energies_B1QS, ops.bahdanau_scores, query_BQD, key_BSD, self.score_D)
        context_B1QD = weighted_values(energies_B1QS, memory_BSD[:, None], mask, probe)
        return probe("context", context_B1QD, ops.context_vector, "weights", memory_BSD)[:, 0]


class DotProductAttention(nn.Module):
    """e_ij = s_i·h_j (Luong et al., 2015)."""

    def keys(self, memory_BSD: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return h itself."""
        return probe("key", memory_BSD)

    def forward(
        self, state_BQD: Tensor, key_BSD: Tensor, memory_BSD: Tensor, mask: Mask | None, probe: Probe = NO_PROBE
    ) -> Tensor:
        """Return the context vectors, B×Q×D."""
        query_B1QD, key_B1SD, value_B1SD = (x[:, None] for x in (state_BQD, key_BSD, memory_BSD))
        context_B1QD = attend(
            query_B1QD, key_B1SD, value_B1SD, mask, probe, scaled=False, scores_operation=ops.luong_scores
        )
        return probe("context", context_B1QD, ops.context_vector, "weights", memory_BSD)[:, 0]


class GeneralAttention(DotProductAttention):
    """e_ij = s_i·W·h_j (Luong et al., 2015)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.key = Linear(d_model, d_model, bias=False)

    def keys(self, memory_BSD: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return W·h, which is computed once per sentence."""
        return probe("key", self.key(memory_BSD), projection, memory_BSD, *self.key.part())


class AttentionalState(nn.Module):
    """tanh(W·[c; s]): context vector and decoder state in one (Luong et al., 2015, eq. 5)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.combine = Linear(2 * d_model, d_model, bias=False)

    def forward(self, context_BTD: Tensor, state_BTD: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        output_BTD = torch.tanh(self.combine(torch.cat([context_BTD, state_BTD], dim=-1)))
        weight, _ = self.combine.part()
        return probe("output", output_BTD, ops.attentional_state, "context", state_BTD, weight)
