"""ELMo (Peters et al., 2018): a bidirectional language model whose states are contextual embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.nn.dropout import Dropout
from glassformer.nn.embedding import Embedding
from glassformer.nn.output_projection import OutputProjection
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.nn.recurrent import RecurrentStack, lengths_of
from glassformer.reference import layers as ops
from glassformer.settings import ELMoSettings


class ELMo(nn.Module):
    """A forward and a backward language model that share embedding and output layer.

    Neither reads the states of the other, which depend on the tokens that it has to predict.
    """

    def __init__(self, s: ELMoSettings, vocab: int, *, pad: int) -> None:
        super().__init__()
        self.pad, self.width = pad, 2 * s.d_model
        self.embedding = Embedding(vocab, s.d_model)
        self.dropout = Dropout(s.dropout)
        self.forwards = RecurrentStack(s.cell, s.layers, s.d_model, s.d_model, dropout=s.dropout)
        self.backwards = RecurrentStack(s.cell, s.layers, s.d_model, s.d_model, dropout=s.dropout)
        self.output = OutputProjection((self.embedding if s.tie_embeddings else Embedding(vocab, s.d_model)).weight_VD)

    def forward(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the top states of both directions, concatenated, B×T×2D. States at padding are not defined."""
        forward_BTD, backward_BTD = self.states(tokens_BT, probe)
        return probe.at("encoder")(
            "hidden", torch.cat([forward_BTD, backward_BTD], dim=-1), ops.concat, forward_BTD, backward_BTD
        )

    def states(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> tuple[Tensor, Tensor]:
        """Return the inputs of the output layer that predict the next token and the previous token, B×T×D each."""
        lengths_B = lengths_of(tokens_BT, self.pad)
        reads, back = probe.at("encoder"), probe.at("backwards")
        x_BTD = reads("input", self.dropout(self.embedding(tokens_BT, reads)))
        forward_BTD, _ = self.forwards(x_BTD, lengths_B=lengths_B, probe=probe.at("forwards"))
        # The text is reversed, so that it is read from its end; a probe sees the backward layers in that order, too.
        reversed_BTD = back("input", reverse(x_BTD, lengths_B), ops.reverse, x_BTD)
        states_BTD, _ = self.backwards(reversed_BTD, lengths_B=lengths_B, probe=back)
        backward_BTD = back("output", reverse(states_BTD, lengths_B), ops.reverse, states_BTD)
        return self.dropout(forward_BTD), self.dropout(backward_BTD)


def reverse(x_BTD: Tensor, lengths_B: Tensor | None) -> Tensor:
    """Reverse the tokens of every row. Padding stays at the end."""
    if lengths_B is None:
        return x_BTD.flip(1)
    at_T = torch.arange(x_BTD.shape[1], device=x_BTD.device)
    from_BT = torch.where(at_T < lengths_B[:, None], lengths_B[:, None] - 1 - at_T, at_T)
    return x_BTD.gather(1, from_BT[:, :, None].expand_as(x_BTD))
