"""The fixed-window language model (Bengio et al., 2003): predicts the next token from the last few."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.dropout import Dropout
from glassformer.nn.embedding import Embedding
from glassformer.nn.linear import Linear
from glassformer.nn.output_projection import OutputProjection
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.reference import layers as ops
from glassformer.settings import WindowSettings


@dataclass(frozen=True)
class State:
    """The embeddings of the tokens that the next window still contains, N×W×D; None before the first token."""

    past_NWD: Tensor | None

    def select(self, rows: Tensor) -> State:
        return self if self.past_NWD is None else State(self.past_NWD.index_select(0, rows))


class Window(nn.Module):
    """tanh(H·[x_{t−n+1}; …; x_t] + d), then the output layer; without the paper's direct connections.

    Windows at the beginning are padded with zeros.
    """

    def __init__(self, s: WindowSettings, vocab: int, *, pad: int) -> None:
        super().__init__()
        self.pad, self.window = pad, s.window
        self.embedding = Embedding(vocab, s.d_model)
        self.dropout = Dropout(s.dropout)
        self.combine = Linear(s.window * s.d_model, s.d_hidden)
        self.output = OutputProjection(Embedding(vocab, s.d_hidden).weight_VD)
        self.max_positions = None

    def forward(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the logits of the token after each, B×T×V."""
        return self.output(self.hidden(tokens_BT, probe), probe)

    def hidden(self, tokens_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the input of the output layer, B×T×F."""
        probe = probe.at("decoder")
        x_BTD = self._embed(tokens_BT, probe)
        return self._combine(x_BTD, F.pad(x_BTD, (0, 0, self.window - 1, 0)), probe)

    def start(self, memory: None = None, copies: int = 1, probe: Probe = NO_PROBE) -> State:
        """Return the state before the first token. There is no source; the first step gives the number of rows."""
        return State(None)

    def step(self, tokens_N: Tensor, state: State, probe: Probe = NO_PROBE) -> tuple[Tensor, State]:
        """Return the logits after one more token per row, N×V, and the state after it."""
        inner = probe.at("decoder")
        x_N1D = self._embed(tokens_N[:, None], inner)
        past_NWD = state.past_NWD
        if past_NWD is None:
            past_NWD = x_N1D.new_zeros(len(x_N1D), self.window - 1, x_N1D.shape[2])
        seen_NWD = torch.cat([past_NWD, x_N1D], dim=1)
        hidden_NF = self._combine(x_N1D, seen_NWD, inner)[:, 0]
        return self.output(hidden_NF, probe), State(seen_NWD[:, 1:])

    def _embed(self, tokens_BT: Tensor, probe: Probe) -> Tensor:
        return probe("input", self.dropout(self.embedding(tokens_BT, probe)))

    def _combine(self, x_BTD: Tensor, seen_BTD: Tensor, probe: Probe) -> Tensor:
        """Return the hidden layer over every window of `seen_BTD`, which is x preceded by earlier tokens."""
        window_BTWD = seen_BTD.unfold(1, self.window, 1).mT
        window_BTWD = probe("window", window_BTWD, ops.window, x_BTD, self.window)
        hidden_BTF = torch.tanh(self.combine(window_BTWD.flatten(2)))
        hidden_BTF = probe("hidden", hidden_BTF, ops.window_hidden, window_BTWD, *self.combine.part())
        return self.dropout(hidden_BTF)
