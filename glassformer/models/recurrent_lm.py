"""A recurrent language model (Mikolov et al., 2010): predicts the next token from a state of all tokens before."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from glassformer.nn.dropout import Dropout
from glassformer.nn.embedding import Embedding
from glassformer.nn.output_projection import OutputProjection
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.nn.recurrent import CellState, RecurrentStack
from glassformer.settings import RecurrentLMSettings


@dataclass(frozen=True)
class State:
    """The state of each layer, N×D; None before the first token, which gives the number of rows."""

    layers: list[CellState] | None

    def select(self, rows: Tensor) -> State:
        if self.layers is None:
            return self
        return State([tuple(tensor.index_select(0, rows) for tensor in layer) for layer in self.layers])


class RecurrentLM(nn.Module):
    """Embedding, recurrent layers, output: a decoder without a source."""

    def __init__(self, s: RecurrentLMSettings, vocab: int, *, pad: int) -> None:
        super().__init__()
        self.pad = pad
        self.embedding = Embedding(vocab, s.d_model)
        self.dropout = Dropout(s.dropout)
        self.decoder = RecurrentStack(s.cell, s.layers, s.d_model, s.d_model, dropout=s.dropout)
        self.output = OutputProjection((self.embedding if s.tie_embeddings else Embedding(vocab, s.d_model)).weight_VD)
        self.max_positions = None

    def forward(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the logits of the token after each, B×T×V."""
        return self.output(self.hidden(tokens_BT, probe), probe)

    def hidden(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the input of the output layer, B×T×D."""
        probe = probe.at("decoder")
        states_BTD, _ = self.decoder(self._embed(tokens_BT, probe), probe=probe)
        return probe("hidden", self.dropout(states_BTD))

    def start(self, memory: None = None, copies: int = 1, probe: Probe = NO_PROBE) -> State:
        """Return the state before the first token. There is no source; the first step gives the number of rows."""
        return State(None)

    def step(self, tokens_N: Tensor, state: State, probe: Probe = NO_PROBE) -> tuple[Tensor, State]:
        """Return the logits after one more token per row, N×V, and the state after it."""
        inner = probe.at("decoder")
        x_ND = self._embed(tokens_N, inner)
        before = state.layers
        if before is None:
            before = self.decoder.start(x_ND)
        hidden_ND, layers = self.decoder.step(x_ND, before, inner)
        hidden_ND = inner("hidden", self.dropout(hidden_ND))
        return self.output(hidden_ND, probe), replace(state, layers=layers)

    def _embed(self, tokens: Tensor, probe: Probe) -> Tensor:
        return probe("input", self.dropout(self.embedding(tokens, probe)))
