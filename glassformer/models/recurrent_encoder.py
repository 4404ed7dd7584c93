"""A bidirectional recurrent encoder (Schuster & Paliwal, 1997): every token in its context, for a head to read."""

from __future__ import annotations

from torch import Tensor, nn

from glassformer.nn.dropout import Dropout
from glassformer.nn.embedding import Embedding
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.nn.recurrent import RecurrentStack, lengths_of
from glassformer.settings import RecurrentEncoderSettings


class RecurrentEncoder(nn.Module):
    """Embedding and recurrent layers; the heads are in `heads.py`."""

    reads_sos = False  # before a text

    def __init__(self, s: RecurrentEncoderSettings, vocab: int, *, pad: int) -> None:
        super().__init__()
        self.pad, self.width, self.max_positions = pad, s.d_model, None
        self.embedding = Embedding(vocab, s.d_model)
        self.dropout = Dropout(s.dropout)
        self.encoder = RecurrentStack(
            s.cell, s.layers, s.d_model, s.d_model, dropout=s.dropout, bidirectional=s.bidirectional
        )

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the hidden states of the top layer, B×S×D. States at padding are not defined."""
        probe = probe.at("encoder")
        x_BSD = probe("input", self.dropout(self.embedding(tokens_BS, probe)))
        states_BSD, _ = self.encoder(x_BSD, lengths_B=lengths_of(tokens_BS, self.pad), probe=probe)
        return probe("hidden", self.dropout(states_BSD))
