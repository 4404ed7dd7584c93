"""Recurrent encoder–decoders, the Transformer's predecessors.

    attention = "none"              Sutskever et al. (2014): the decoder starts from the encoder's last state
    attention = "additive"          Bahdanau et al. (2015): the decoder attends to the source before each step
    attention = "dot" or "general"  Luong et al. (2015): it attends after each step

The cell is that of an RNN, an LSTM or a GRU; the encoder may be bidirectional.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from glassformer.nn.alignment import AdditiveAttention, AttentionalState, DotProductAttention, GeneralAttention
from glassformer.nn.cache import sentences_of
from glassformer.nn.dropout import Dropout
from glassformer.nn.embedding import Embedding
from glassformer.nn.linear import Linear
from glassformer.nn.masks import Mask, padding_mask
from glassformer.nn.output_projection import OutputProjection
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.nn.recurrent import CELLS, CellState, Context, OverTime, RecurrentStack, lengths_of, show_previous
from glassformer.reference import layers as layer_ops
from glassformer.reference import recurrent as ops
from glassformer.settings import RecurrentSettings


@dataclass(frozen=True)
class Source:
    """The encoder's hidden states that the decoder attends to, as keys and as values."""

    key_BSD: Tensor
    memory_BSD: Tensor
    mask: Mask | None

    def select(self, sentences: Tensor) -> Source:
        mask = None if self.mask is None else self.mask.select(sentences)
        return Source(self.key_BSD.index_select(0, sentences), self.memory_BSD.index_select(0, sentences), mask)


class Bridge(nn.Module):
    """Computes the decoder's initial state: each layer starts from the last state of an encoder layer.

    The top layers correspond; where the decoder has more layers, its lowest all start from the encoder's lowest. The
    state of a unidirectional encoder is used unchanged (Sutskever et al.). The two last states of a bidirectional
    encoder are combined: h = tanh(W·[h→; h←]). An LSTM's cell states are combined too, without the tanh: c = V·[h→; h←;
    c→; c←].
    """

    def __init__(self, s: RecurrentSettings) -> None:
        super().__init__()
        self.encoder_layer_of = [max(0, s.encoder_layers - s.decoder_layers + i) for i in range(s.decoder_layers)]
        tensors, d = CELLS[s.cell].tensors, s.d_model
        joins = (Linear(tensors * d, d, parts=tensors) for _ in self.encoder_layer_of)
        self.joins = nn.ModuleList(joins) if s.bidirectional else None

    def forward(self, last: list[CellState], probe: Probe = NO_PROBE) -> list[CellState]:
        """Return the initial state of each decoder layer, from the last state of each encoder layer."""
        return [self._start(i, last[layer], layer, probe) for i, layer in enumerate(self.encoder_layer_of)]

    def _start(self, i: int, last: CellState, layer: int, probe: Probe) -> CellState:
        source, decoder = probe.at("encoder", layer), probe.at("decoder", i)
        for name, tensor in zip(("hidden_state", "cell_state"), last, strict=False):
            if self.joins is None:
                source(f"last_{name}", tensor, layer_ops.last, name)
            else:
                source(f"last_{name}", tensor, ops.both_ends, f"forwards.{name}", f"backwards.{name}")
        if self.joins is None:
            return tuple(map(decoder, ("start", "start_cell"), last))
        join = cast("Linear", self.joins[i])
        h_BD, *cell = join(torch.cat(last, dim=-1)).float().chunk(len(last), dim=-1)
        c = last[1] if cell else None
        start_BD = decoder("start", torch.tanh(h_BD), ops.initial_state, last[0], *join.part(0), c)
        if not cell:
            return (start_BD,)
        return start_BD, decoder("start_cell", cell[0], ops.initial_cell, last[0], *join.part(1), c)


class Decoder(nn.Module):
    """Recurrent layers over the target, without attention."""

    def __init__(self, s: RecurrentSettings) -> None:
        super().__init__()
        self.stack = RecurrentStack(s.cell, s.decoder_layers, s.d_model, s.d_model, dropout=s.dropout)

    def source(self, memory_BSD: Tensor, mask: Mask | None, probe: Probe) -> Source | None:
        """Return the keys and values that the decoder attends to, computed once per sentence."""
        return None

    def forward(self, y_BTD: Tensor, starts: list[CellState], source: Source | None, probe: Probe) -> Tensor:
        """Return the input of the output layer for all target tokens, B×T×D."""
        return self.stack(y_BTD, starts, probe=probe)[0]

    def step(
        self, y_ND: Tensor, states: list[CellState], source: Source | None, probe: Probe
    ) -> tuple[Tensor, list[CellState]]:
        """Return the output for one more token, N×D, and the states after it."""
        return self.stack.step(y_ND, states, probe)


class LuongDecoder(Decoder):
    """Recurrent layers over the target, then attention by the top states (Luong et al.; without input feeding).

    The context vector is not fed back into the layers, so all steps of teacher forcing are computed at once.
    """

    def __init__(self, s: RecurrentSettings) -> None:
        super().__init__(s)
        self.attention = GeneralAttention(s.d_model) if s.attention == "general" else DotProductAttention()
        self.attentional = AttentionalState(s.d_model)

    def source(self, memory_BSD: Tensor, mask: Mask | None, probe: Probe) -> Source:
        return Source(self.attention.keys(memory_BSD, probe.at("cross")), memory_BSD, mask)

    def forward(self, y_BTD: Tensor, starts: list[CellState], source: Source | None, probe: Probe) -> Tensor:
        return self._attend(super().forward(y_BTD, starts, source, probe), source, probe)

    def step(
        self, y_ND: Tensor, states: list[CellState], source: Source | None, probe: Probe
    ) -> tuple[Tensor, list[CellState]]:
        state_ND, states = self.stack.step(y_ND, states, probe)
        assert source is not None
        state_BQD = state_ND.view(len(source.memory_BSD), -1, state_ND.shape[1])  # the rows of a sentence together
        return self._attend(state_BQD, source, probe).view(state_ND.shape), states

    def _attend(self, state_BTD: Tensor, source: Source | None, probe: Probe) -> Tensor:
        assert source is not None
        cross = probe.at("cross")
        context_BTD = self.attention(state_BTD, source.key_BSD, source.memory_BSD, source.mask, cross)
        return self.attentional(context_BTD, state_BTD, cross)


class BahdanauDecoder(nn.Module):
    """The lowest layer attends before each step with its previous state, and reads the context vector together with
    the token (Bahdanau et al.). The layers above it run over its states.

    Each step depends on the previous one, so this decoder loops over time. Everything else (the gates' projection of
    the tokens, the keys, the layers above) is computed outside of the loop. The attentional state of Luong et al.
    replaces the paper's maxout layer before the output.
    """

    def __init__(self, s: RecurrentSettings) -> None:
        super().__init__()
        self.attention = AdditiveAttention(s.d_model)
        self.cell = CELLS[s.cell](s.d_model, s.d_model)
        self.context = Linear(s.d_model, s.d_model, parts=self.cell.parts, bias=False)  # its part of the gates
        self.dropout = Dropout(s.dropout)
        above = s.decoder_layers - 1
        self.above = RecurrentStack(s.cell, above, s.d_model, s.d_model, dropout=s.dropout) if above else None
        self.attentional = AttentionalState(s.d_model)

    def source(self, memory_BSD: Tensor, mask: Mask | None, probe: Probe) -> Source:
        return Source(self.attention.keys(memory_BSD, probe.at("cross")), memory_BSD, mask)

    def forward(self, y_BTD: Tensor, starts: list[CellState], source: Source, probe: Probe) -> Tensor:
        with torch.autocast(y_BTD.device.type, enabled=False):
            x_BTD, context_BTD = self._loop(y_BTD.float(), starts[0], source, probe)
        if self.above is not None:
            x_BTD, _ = self.above(self.dropout(x_BTD), starts[1:], probe=probe, first=1)
        return self.attentional(context_BTD, x_BTD, probe.at("cross"))

    def _loop(self, y_BTD: Tensor, state: CellState, source: Source, probe: Probe) -> tuple[Tensor, Tensor]:
        """Return the lowest layer's hidden states and context vectors, B×T×D each."""
        probe.at(0)("input", y_BTD)
        steps = OverTime(probe)
        layer, cross = steps.at(0), steps.at("cross")
        source = Source(source.key_BSD.float(), source.memory_BSD.float(), source.mask)
        states, contexts = [], []
        for read_BG in self.cell.input(y_BTD).unbind(1):
            state, context_BD = self._advance(read_BG, state, source, layer, cross)
            states.append(state[0])
            contexts.append(context_BD)
        steps.show()
        states_BTD = probe.at(0)("hidden_state", torch.stack(states, dim=1), *self.cell.hidden_state)
        return states_BTD, torch.stack(contexts, dim=1)

    def _advance(
        self, read_NG: Tensor, state: CellState, source: Source, layer: Probe, cross: Probe
    ) -> tuple[CellState, Tensor]:
        """Attend with the previous state, then compute the next one."""
        show_previous(state, layer)
        h_ND = state[0]
        h_BQD = h_ND.view(len(source.memory_BSD), -1, h_ND.shape[1])  # the rows of a sentence together
        context_BQD = self.attention(h_BQD, source.key_BSD, source.memory_BSD, source.mask, cross)
        context_ND = context_BQD.view(h_ND.shape)
        read_NG = read_NG + self.context(context_ND)
        return self.cell(read_NG, state, layer, Context(context_ND, self.context)), context_ND

    def step(
        self, y_ND: Tensor, states: list[CellState], source: Source, probe: Probe
    ) -> tuple[Tensor, list[CellState]]:
        layer = probe.at(0)
        layer("input", y_ND)
        lowest, context_ND = self._advance(self.cell.input(y_ND), states[0], source, layer, probe.at("cross"))
        x_ND, after = layer("hidden_state", lowest[0], *self.cell.hidden_state), [lowest]
        if self.above is not None:
            x_ND, higher = self.above.step(self.dropout(x_ND), states[1:], probe, first=1)
            after += higher
        return self.attentional(context_ND, x_ND, probe.at("cross")), after


DECODERS = {"none": Decoder, "additive": BahdanauDecoder, "dot": LuongDecoder, "general": LuongDecoder}


@dataclass(frozen=True)
class Memory:
    """The encoder's output: the decoder's initial state and, for attention, the hidden states of all tokens."""

    starts: list[CellState]
    source: Source | None


@dataclass(frozen=True)
class State:
    """The state of each decoder layer. In a beam search each sentence has `copies` rows."""

    copies: int
    layers: list[CellState]
    source: Source | None

    def select(self, rows: Tensor) -> State:
        """Return the state of these rows. Sentences may leave; the rows of a sentence stay together."""
        layers = [tuple(tensor.index_select(0, rows) for tensor in layer) for layer in self.layers]
        if self.source is None:
            return replace(self, layers=layers)
        sentences = sentences_of(rows, self.copies)
        everybody = torch.arange(len(self.source.memory_BSD), device=rows.device)
        source = self.source if torch.equal(sentences, everybody) else self.source.select(sentences)
        return replace(self, layers=layers, source=source)


class Recurrent(nn.Module):
    """Encoder, bridge and decoder."""

    def __init__(self, s: RecurrentSettings, vocab: int, *, pad: int) -> None:
        super().__init__()
        self.pad = pad
        self.source_embedding = Embedding(vocab, s.d_model)
        self.target_embedding = self.source_embedding if s.tie_embeddings else Embedding(vocab, s.d_model)
        self.dropout = Dropout(s.dropout)
        self.encoder = RecurrentStack(
            s.cell, s.encoder_layers, s.d_model, s.d_model, dropout=s.dropout, bidirectional=s.bidirectional
        )
        self.bridge = Bridge(s)
        self.decoder: Any = DECODERS[s.attention](s)
        tied = self.target_embedding if s.tie_embeddings else Embedding(vocab, s.d_model)
        self.output = OutputProjection(tied.weight_VD)
        self.attends = s.attention != "none"
        self.max_positions = None

    def forward(self, source_BS: Tensor, target_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the logits of the token after each of `<sos> Je vais bien` (teacher forcing), B×T×V."""
        return self.output(self.hidden(source_BS, target_BT, probe), probe)

    def hidden(self, source_BS: Tensor, target_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the input of the output layer at each target position, B×T×D."""
        memory = self.encode(source_BS, probe)
        probe = probe.at("decoder")
        hidden_BTD = self.decoder(self._embed(target_BT, probe), memory.starts, memory.source, probe)
        return probe("hidden", self.dropout(hidden_BTD))

    def encode(self, source_BS: Tensor, probe: Probe = NO_PROBE) -> Memory:
        inner = probe.at("encoder")
        x_BSD = inner("input", self.dropout(self.source_embedding(source_BS, inner)))
        states_BSD, last = self.encoder(x_BSD, lengths_B=lengths_of(source_BS, self.pad), probe=inner)
        starts = self.bridge(last, probe)
        memory_BSD = inner("memory", states_BSD) if self.attends else states_BSD
        return Memory(starts, self.decoder.source(memory_BSD, padding_mask(source_BS, self.pad), probe.at("decoder")))

    def start(self, memory: Memory, copies: int = 1, probe: Probe = NO_PROBE) -> State:
        """Return the state before the first token, with `copies` hypotheses for each sentence of the memory."""
        layers = [tuple(tensor.repeat_interleave(copies, dim=0) for tensor in layer) for layer in memory.starts]
        return State(copies, layers, memory.source)

    def step(self, tokens_N: Tensor, state: State, probe: Probe = NO_PROBE) -> tuple[Tensor, State]:
        """Return the logits after one more token per row, N×V, and the state after it."""
        inner = probe.at("decoder")
        y_ND = self._embed(tokens_N, inner)
        hidden_ND, layers = self.decoder.step(y_ND, state.layers, state.source, inner)
        hidden_ND = inner("hidden", self.dropout(hidden_ND))
        return self.output(hidden_ND, probe), replace(state, layers=layers)

    def _embed(self, tokens: Tensor, probe: Probe) -> Tensor:
        return probe("input", self.dropout(self.target_embedding(tokens, probe)))
