"""Recurrent encoder–decoders, the Transformer's predecessors.

    attention = "none"              Sutskever et al. (2014): the encoder's last state is all that the decoder gets
    attention = "additive"          Bahdanau et al. (2015): before each step the decoder looks back at the source
    attention = "dot" or "general"  Luong et al. (2015): it looks after each step

The cell is that of an RNN, an LSTM or a GRU; the encoder may read the source in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.nn.alignment import AdditiveAttention, AttentionalState, DotAttention, GeneralAttention
from glassformer.nn.dropout import Dropout
from glassformer.nn.embedding import Embedding, OutputLayer
from glassformer.nn.linear import Linear
from glassformer.nn.masks import padding_mask
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.nn.recurrent import CELLS, CellState, OverTime, RecurrentStack, lengths_of
from glassformer.nn.state import sentences_of
from glassformer.settings import RecurrentSettings


@dataclass(frozen=True)
class Source:
    """What attention reads: the encoder's states of every token, as values and as keys."""

    key_BSD: Tensor
    memory_BSD: Tensor
    mask: Tensor | None

    def of(self, sentences: Tensor) -> Source:
        mask = None if self.mask is None else self.mask.index_select(0, sentences)
        return Source(self.key_BSD.index_select(0, sentences), self.memory_BSD.index_select(0, sentences), mask)


class Bridge(nn.Module):
    """How the decoder starts: each of its layers with the last state of the encoder's layer beside it.

    Uppermost beside uppermost; where the decoder has more layers, its lowest begin alike. An encoder that reads in one
    direction hands its state over as it is (Sutskever et al.). One that reads in both has read the whole source
    twice, and both readings are put together: h = tanh(W·[h→; h←]). An LSTM's cells are treated as part of its state,
    but for the tanh: c = V·[h→; h←; c→; c←].
    """

    def __init__(self, s: RecurrentSettings) -> None:
        super().__init__()
        self.beside = [max(0, s.encoder_layers - s.decoder_layers + i) for i in range(s.decoder_layers)]
        tensors, d = CELLS[s.cell].tensors, s.d_model
        joins = (Linear(tensors * d, d, parts=tensors) for _ in self.beside)
        self.joins = nn.ModuleList(joins) if s.bidirectional else None

    def forward(self, last: list[CellState], probe: Probe = NO_PROBE) -> list[CellState]:
        states = [last[layer] for layer in self.beside]
        if self.joins is not None:
            joined = (
                join(torch.cat(state, dim=-1)).float().chunk(len(state), dim=-1)
                for join, state in zip(self.joins, states, strict=True)
            )
            states = [(torch.tanh(h_BD), *cell) for h_BD, *cell in joined]
        names = ("start", "start_cell")
        return [tuple(map(probe.at(i), names, state)) for i, state in enumerate(states)]


class Decoder(nn.Module):
    """Layers over the target; no attention."""

    def __init__(self, s: RecurrentSettings) -> None:
        super().__init__()
        self.stack = RecurrentStack(s.cell, s.decoder_layers, s.d_model, s.d_model, dropout=s.dropout)

    def remember(self, memory_BSD: Tensor, mask: Tensor | None, probe: Probe) -> Source | None:
        return None

    def forward(self, y_BTD: Tensor, starts: list[CellState], source: Source | None, probe: Probe) -> Tensor:
        """All target tokens at once: what the output layer reads, B×T×D."""
        return self.stack(y_BTD, starts, probe=probe)[0]

    def step(
        self, y_ND: Tensor, states: list[CellState], source: Source | None, probe: Probe
    ) -> tuple[Tensor, list[CellState]]:
        """One token more: N×D, and the states after it."""
        return self.stack.step(y_ND, states, probe)


class LookingAfterwards(Decoder):
    """Layers over the target, then attention by the uppermost states (Luong et al.; without input feeding).

    What was read does not go back into the layers, so all steps of teacher forcing are computed at once.
    """

    def __init__(self, s: RecurrentSettings) -> None:
        super().__init__(s)
        self.attention = GeneralAttention(s.d_model) if s.attention == "general" else DotAttention()
        self.attentional = AttentionalState(s.d_model)

    def remember(self, memory_BSD: Tensor, mask: Tensor | None, probe: Probe) -> Source:
        return Source(probe.at("cross")("key", self.attention.remember(memory_BSD)), memory_BSD, mask)

    def forward(self, y_BTD: Tensor, starts: list[CellState], source: Source | None, probe: Probe) -> Tensor:
        return self._looked(super().forward(y_BTD, starts, source, probe), source, probe)

    def step(
        self, y_ND: Tensor, states: list[CellState], source: Source | None, probe: Probe
    ) -> tuple[Tensor, list[CellState]]:
        state_ND, states = self.stack.step(y_ND, states, probe)
        assert source is not None
        state_BQD = state_ND.view(len(source.memory_BSD), -1, state_ND.shape[1])  # the rows of a sentence ask together
        return self._looked(state_BQD, source, probe).view(state_ND.shape), states

    def _looked(self, state_BTD: Tensor, source: Source | None, probe: Probe) -> Tensor:
        assert source is not None
        look = probe.at("cross")
        context_BTD = self.attention(state_BTD, source.key_BSD, source.memory_BSD, source.mask, look)
        return self.attentional(context_BTD, state_BTD, look)


class LookingBefore(nn.Module):
    """The lowest layer looks back before each step, with the state that it has then, and reads what it found there
    beside the token (Bahdanau et al.). Layers above it run over its states.

    Each step waits for the one before: this is the only loop over time. What the steps do not depend on (the tokens'
    share of the gates, the keys, the layers above) is computed outside of it, at once. The paper's maxout before the
    output is the attentional state of Luong et al. here.
    """

    def __init__(self, s: RecurrentSettings) -> None:
        super().__init__()
        self.attention = AdditiveAttention(s.d_model)
        self.cell = CELLS[s.cell](s.d_model, s.d_model)
        self.context = Linear(s.d_model, s.d_model, parts=self.cell.parts, bias=False)  # its share of the gates
        self.dropout = Dropout(s.dropout)
        above = s.decoder_layers - 1
        self.above = RecurrentStack(s.cell, above, s.d_model, s.d_model, dropout=s.dropout) if above else None
        self.attentional = AttentionalState(s.d_model)

    def remember(self, memory_BSD: Tensor, mask: Tensor | None, probe: Probe) -> Source:
        return Source(probe.at("cross")("key", self.attention.remember(memory_BSD)), memory_BSD, mask)

    def forward(self, y_BTD: Tensor, starts: list[CellState], source: Source, probe: Probe) -> Tensor:
        with torch.autocast(y_BTD.device.type, enabled=False):
            x_BTD, context_BTD = self._loop(y_BTD.float(), starts[0], source, probe)
        if self.above is not None:
            x_BTD, _ = self.above(self.dropout(x_BTD), starts[1:], probe=probe, first=1)
        return self.attentional(context_BTD, x_BTD, probe.at("cross"))

    def _loop(self, y_BTD: Tensor, state: CellState, source: Source, probe: Probe) -> tuple[Tensor, Tensor]:
        """The lowest layer's states and what it read, B×T×D each."""
        gates, cross = OverTime(probe.at(0)), OverTime(probe.at("cross"))
        source = Source(source.key_BSD.float(), source.memory_BSD.float(), source.mask)
        states, contexts = [], []
        for read_BG in self.cell.input(y_BTD).unbind(1):
            state, context_BD = self._advance(read_BG, state, source, gates, cross)
            states.append(state[0])
            contexts.append(context_BD)
        gates.show()
        cross.show()
        return probe.at(0)("states", torch.stack(states, dim=1)), torch.stack(contexts, dim=1)

    def _advance(
        self, read_NG: Tensor, state: CellState, source: Source, gates: Probe, cross: Probe
    ) -> tuple[CellState, Tensor]:
        """Looks with the state before the step, then steps."""
        h_ND = state[0]
        h_BQD = h_ND.view(len(source.memory_BSD), -1, h_ND.shape[1])  # the rows of a sentence ask together
        context_BQD = self.attention(h_BQD, source.key_BSD, source.memory_BSD, source.mask, cross)
        context_ND = context_BQD.view(h_ND.shape)
        return self.cell(read_NG + self.context(context_ND), state, gates), context_ND

    def step(
        self, y_ND: Tensor, states: list[CellState], source: Source, probe: Probe
    ) -> tuple[Tensor, list[CellState]]:
        read_NG = self.cell.input(y_ND)
        lowest, context_ND = self._advance(read_NG, states[0], source, probe.at(0), probe.at("cross"))
        x_ND, after = probe.at(0)("states", lowest[0]), [lowest]
        if self.above is not None:
            x_ND, higher = self.above.step(self.dropout(x_ND), states[1:], probe, first=1)
            after += higher
        return self.attentional(context_ND, x_ND, probe.at("cross")), after


DECODERS = {
    "none": Decoder,
    "additive": LookingBefore,
    "dot": LookingAfterwards,
    "general": LookingAfterwards,
}


@dataclass(frozen=True)
class Memory:
    """What the encoder made of the source: how the decoder starts, and, for attention, the states of all tokens."""

    starts: list[CellState]
    source: Source | None


@dataclass(frozen=True)
class State:
    """Where the decoder stands: the state of each layer. In a beam search each sentence has `copies` rows."""

    copies: int
    layers: list[CellState]
    source: Source | None

    def select(self, rows: Tensor) -> State:
        """The state of these rows. Whole sentences may leave; the rows of a sentence stay together."""
        layers = [tuple(tensor.index_select(0, rows) for tensor in layer) for layer in self.layers]
        if self.source is None:
            return replace(self, layers=layers)
        sentences = sentences_of(rows, self.copies)
        everybody = torch.arange(len(self.source.memory_BSD), device=rows.device)
        source = self.source if torch.equal(sentences, everybody) else self.source.of(sentences)
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
        self.output = OutputLayer(tied.weight_VD)
        self.looks = s.attention != "none"
        self.longest = None

    def forward(self, source_BS: Tensor, target_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Teacher forcing: logits for the token after each of `<sos> Je vais bien`. B×T×V."""
        return probe("logits", self.output(self.hidden(source_BS, target_BT, probe)))

    def hidden(self, source_BS: Tensor, target_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """What the output layer reads at each target position. B×T×D."""
        memory = self.encode(source_BS, probe)
        probe = probe.at("decoder")
        hidden_BTD = self.decoder(self._read(target_BT, probe), memory.starts, memory.source, probe)
        return probe("hidden", self.dropout(hidden_BTD))

    def encode(self, source_BS: Tensor, probe: Probe = NO_PROBE) -> Memory:
        inner = probe.at("encoder")
        x_BSD = inner("input", self.dropout(self.source_embedding(source_BS, inner)))
        states_BSD, last = self.encoder(x_BSD, lengths_B=lengths_of(source_BS, self.pad), probe=inner)
        starts = self.bridge(last, probe.at("decoder"))
        memory_BSD = inner("memory", states_BSD) if self.looks else states_BSD
        return Memory(starts, self.decoder.remember(memory_BSD, padding_mask(source_BS, self.pad), probe.at("decoder")))

    def start(self, memory: Memory, copies: int = 1) -> State:
        """Before the first token, with `copies` hypotheses for each sentence of the memory."""
        layers = [tuple(tensor.repeat_interleave(copies, dim=0) for tensor in layer) for layer in memory.starts]
        return State(copies, layers, memory.source)

    def step(self, tokens_N: Tensor, state: State, probe: Probe = NO_PROBE) -> tuple[Tensor, State]:
        """One more token for each row: logits of the next, N×V, and the state after it."""
        inner = probe.at("decoder")
        y_ND = self._read(tokens_N, inner)
        hidden_ND, layers = self.decoder.step(y_ND, state.layers, state.source, inner)
        hidden_ND = inner("hidden", self.dropout(hidden_ND))
        return probe("logits", self.output(hidden_ND)), replace(state, layers=layers)

    def _read(self, tokens: Tensor, probe: Probe) -> Tensor:
        return probe("input", self.dropout(self.target_embedding(tokens, probe)))

    @staticmethod
    def work(s: RecurrentSettings, vocab: int) -> tuple[int, int]:
        """Multiplications that a source token and a target token take (a sentence is taken to have 20)."""
        d, gates, length = s.d_model, CELLS[s.cell].parts, 20
        one_way = d // 2 if s.bidirectional else d
        encoder = s.encoder_layers * (2 if s.bidirectional else 1) * gates * one_way * (d + one_way)
        decoder = s.decoder_layers * gates * 2 * d * d + d * vocab
        keys = {"none": 0, "dot": 0, "general": d * d, "additive": d * d}[s.attention]
        # Scores and context; the additive's tanh of every pair costs as much as many multiplications.
        looking = {"none": 0, "dot": 2 * d * d + 2 * length * d, "general": 2 * d * d + 2 * length * d}
        looking["additive"] = (3 + gates) * d * d + 20 * length * d
        return encoder + keys, decoder + looking[s.attention]

    @staticmethod
    def kept(s: RecurrentSettings) -> int:
        """Numbers that training keeps of a token, on both sides, for the way back."""
        per_layer = (2 * CELLS[s.cell].parts + 4) * s.d_model
        return (s.encoder_layers + s.decoder_layers) * per_layer + (20 * s.d_model if s.attention == "additive" else 0)
