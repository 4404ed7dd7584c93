"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017). Section numbers refer to the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from glassformer.nn.attention import CrossAttention, MultiHeadAttention, SelfAttention
from glassformer.nn.cache import KeyValueCache, sentences_of
from glassformer.nn.dropout import Dropout
from glassformer.nn.embedding import Embedding
from glassformer.nn.feed_forward import FeedForward
from glassformer.nn.masks import Mask, look_ahead_mask, padding_mask, self_only_mask
from glassformer.nn.norm import EPSILON, LayerNorm, PostNorm, PreNorm
from glassformer.nn.output_projection import OutputProjection
from glassformer.nn.positional_encoding import (
    AddPositions,
    ConcatenatePositions,
    LearnedPositions,
    NoPositions,
    RotaryPositions,
    SinusoidalPositions,
)
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.settings import BertSettings, TransformerSettings, ViTSettings

LayerSettings = TransformerSettings | BertSettings | ViTSettings
KeyValue = tuple[Tensor, Tensor]  # keys and values of the memory, B×H×S×E each


def add_norm(s: LayerSettings, epsilon: float = EPSILON) -> PostNorm | PreNorm:
    """Add & Norm around a sub-layer."""
    return (PreNorm if s.norm == "pre" else PostNorm)(s.d_model, s.dropout, epsilon=epsilon)


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each inside Add & Norm (§3.1)."""

    def __init__(self, s: LayerSettings, *, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.self_attention = SelfAttention(s.d_model, s.heads)
        self.self_residual = add_norm(s, epsilon)
        self.feed_forward = FeedForward(s.d_model, s.d_ff, activation=s.activation)
        self.feed_forward_residual = add_norm(s, epsilon)

    def forward(
        self, x_BSD: Tensor, mask: Mask | None, probe: Probe = NO_PROBE, *, rotation_SE: Tensor | None = None
    ) -> Tensor:
        self_probe, ff_probe = probe.at("self"), probe.at("ff")
        x_BSD = self.self_residual(
            x_BSD, lambda x: self.self_attention(x, mask=mask, rotation_TE=rotation_SE, probe=self_probe), self_probe
        )
        return self.feed_forward_residual(x_BSD, lambda x: self.feed_forward(x, ff_probe), ff_probe)


class DecoderLayer(nn.Module):
    """Masked self-attention, encoder–decoder attention, feed-forward network, each inside Add & Norm (§3.1)."""

    def __init__(self, s: TransformerSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(s.d_model, s.heads)
        self.self_residual = add_norm(s)
        self.cross_attention = CrossAttention(s.d_model, s.heads)
        self.cross_residual = add_norm(s)
        self.feed_forward = FeedForward(s.d_model, s.d_ff, activation=s.activation)
        self.feed_forward_residual = add_norm(s)

    def forward(
        self,
        x_BTD: Tensor,
        key_value: KeyValue,
        *,
        self_mask: Mask | None,
        memory_mask: Mask | None,
        cache: KeyValueCache | None = None,
        rotation_TE: Tensor | None = None,
        probe: Probe = NO_PROBE,
    ) -> Tensor:
        self_probe, cross_probe, ff_probe = probe.at("self"), probe.at("cross"), probe.at("ff")
        x_BTD = self.self_residual(
            x_BTD,
            lambda x: self.self_attention(x, mask=self_mask, cache=cache, rotation_TE=rotation_TE, probe=self_probe),
            self_probe,
        )
        x_BTD = self.cross_residual(
            x_BTD, lambda x: self.cross_attention(x, key_value, mask=memory_mask, probe=cross_probe), cross_probe
        )
        return self.feed_forward_residual(x_BTD, lambda x: self.feed_forward(x, ff_probe), ff_probe)


@dataclass(frozen=True)
class Memory:
    """The encoder's output, with the padding mask of the source."""

    hidden_BSD: Tensor
    mask: Mask | None


@dataclass(frozen=True)
class State:
    """The state of decoding: caches of the tokens so far, and the keys and values of the memory.

    In a beam search each sentence has `copies` rows. Their keys are in one cache, which is never reordered:
    `ancestry_BQK` is 0 at the keys of the hypothesis of a row and −∞ at all others.
    """

    copies: int
    steps: int
    caches: list[KeyValueCache]
    ancestry_BQK: Tensor | None  # None before the first step, and with one row per sentence
    memory: list[KeyValue]  # of each layer
    memory_mask: Mask | None

    @property
    def sentences(self) -> int:
        return len(self.memory[0][0])

    def select(self, rows: Tensor) -> State:
        """Return the state of these rows. Sentences may leave; the rows of a sentence stay together."""
        sentences = sentences_of(rows, self.copies)
        everything = torch.arange(self.sentences, device=rows.device)
        chosen = self if torch.equal(sentences, everything) else self._select_sentences(sentences)
        if chosen.ancestry_BQK is None:
            return chosen
        parent_BQ1 = (rows % self.copies).view(-1, self.copies, 1)
        return replace(chosen, ancestry_BQK=chosen.ancestry_BQK.gather(1, parent_BQ1.expand(chosen.ancestry_BQK.shape)))

    def next(self) -> State:
        """Return the state of the next step, with caches that may be appended to."""
        ancestry_BQK = self.ancestry_BQK
        if self.copies > 1:  # each new row attends to its own past and to itself
            self_BQQ = self_only_mask(self.copies, self.memory[0][0].device).expand(self.sentences, -1, -1)
            ancestry_BQK = self_BQQ if ancestry_BQK is None else torch.cat([ancestry_BQK, self_BQQ], dim=2)
        caches = [cache.fork() for cache in self.caches]
        return replace(self, steps=self.steps + 1, caches=caches, ancestry_BQK=ancestry_BQK)

    @property
    def self_mask(self) -> Mask | None:
        """Return the mask that hides the keys of other rows; None with one row per sentence."""
        return None if self.ancestry_BQK is None else Mask(self.ancestry_BQK[:, None])

    def _select_sentences(self, sentences: Tensor) -> State:
        return replace(
            self,
            caches=[cache.select(sentences) for cache in self.caches],
            ancestry_BQK=None if self.ancestry_BQK is None else self.ancestry_BQK.index_select(0, sentences),
            memory=[(key.index_select(0, sentences), value.index_select(0, sentences)) for key, value in self.memory],
            memory_mask=None if self.memory_mask is None else self.memory_mask.select(sentences),
        )


class Transformer(nn.Module):
    """Encoder and decoder, wired as in the paper's figure 1."""

    def __init__(self, s: TransformerSettings, vocab: int, *, pad: int) -> None:
        super().__init__()
        self.pad = pad
        self.source_embedding = Embedding(vocab, s.d_model)
        self.target_embedding = self.source_embedding if s.tie_embeddings else Embedding(vocab, s.d_model)
        self.source_positions = make_positions(s)
        self.target_positions = make_positions(s)
        self.rotary = RotaryPositions(s.d_model, s.heads) if s.positions == "rotary" else None
        self.dropout = Dropout(s.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(s) for _ in range(s.encoder_layers))
        self.encoder_norm = LayerNorm(s.d_model) if s.norm == "pre" else None
        self.decoder = nn.ModuleList(DecoderLayer(s) for _ in range(s.decoder_layers))
        self.decoder_norm = LayerNorm(s.d_model) if s.norm == "pre" else None
        tied = self.target_embedding if s.tie_embeddings else Embedding(vocab, s.d_model)
        self.output = OutputProjection(tied.weight_VD, bias=s.output_bias)
        self.max_positions = s.max_positions if s.positions == "learned" else None
        if s.zero_init:
            zero_output_projections(self)

    def forward(self, source_BS: Tensor, target_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the logits of the token after each of `<sos> Je vais bien` (teacher forcing), B×T×V."""
        return self.output(self.hidden(source_BS, target_BT, probe), probe)

    def hidden(self, source_BS: Tensor, target_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the input of the output layer, B×T×D: all target positions at once, with the look-ahead mask."""
        memory = self.encode(source_BS, probe)
        key_values = self._keys_and_values(memory, probe)
        x_BTD = self._embed_target(target_BT, 0, probe)
        rotation_TE = self._rotation(x_BTD, 0, probe.at("decoder"))
        return self._decode(
            x_BTD,
            key_values,
            memory.mask,
            self_mask=self.target_mask(target_BT),
            rotation_TE=rotation_TE,
            probe=probe,
        )

    def target_mask(self, target_BT: Tensor) -> Mask | None:
        """Return the mask of the decoder's self-attention in teacher forcing."""
        return look_ahead_mask(target_BT.shape[1], target_BT.device)

    def encode(self, source_BS: Tensor, probe: Probe = NO_PROBE) -> Memory:
        """Run the encoder."""
        probe = probe.at("encoder")
        x_BSD = self.source_embedding(source_BS, probe)
        x_BSD = self.dropout(self.source_positions(x_BSD, probe=probe))
        mask, rotation_SE = padding_mask(source_BS, self.pad), self._rotation(x_BSD, 0, probe)
        for i, layer in enumerate(self.encoder):
            x_BSD = layer(x_BSD, mask, probe.at(i), rotation_SE=rotation_SE)
        if self.encoder_norm is None:
            return Memory(probe("memory", x_BSD), mask)
        return Memory(self.encoder_norm(x_BSD, probe, "memory"), mask)

    def start(self, memory: Memory, copies: int = 1, probe: Probe = NO_PROBE) -> State:
        """Return the state before the first token, with `copies` hypotheses for each sentence of the memory."""
        caches = [KeyValueCache() for _ in self.decoder]
        return State(copies, 0, caches, None, self._keys_and_values(memory, probe), memory.mask)

    def step(self, tokens_N: Tensor, state: State, probe: Probe = NO_PROBE) -> tuple[Tensor, State]:
        """Read one more token per row; return the logits of the next, N×V, and the state after it."""
        after = state.next()
        x_N1D = self._embed_target(tokens_N[:, None], state.steps, probe)
        rotation_1E = self._rotation(x_N1D, state.steps, probe.at("decoder"))
        # The rows of one sentence become further queries of it, so that they share its keys and values.
        x_BQD = x_N1D.view(state.sentences, -1, x_N1D.shape[-1])
        hidden_BQD = self._decode(
            x_BQD,
            state.memory,
            state.memory_mask,
            self_mask=after.self_mask,
            caches=after.caches,
            rotation_TE=rotation_1E,
            probe=probe,
        )
        return self.output(hidden_BQD.view(len(tokens_N), -1), probe), after

    def _keys_and_values(self, memory: Memory, probe: Probe) -> list[KeyValue]:
        """Return the keys and values of the encoder–decoder attention of each layer, computed once per sentence."""
        layers = cast("list[DecoderLayer]", self.decoder)
        return [
            layer.cross_attention.keys_and_values(memory.hidden_BSD, probe.at("decoder", i, "cross"))
            for i, layer in enumerate(layers)
        ]

    def _embed_target(self, target_NT: Tensor, start: int, probe: Probe) -> Tensor:
        probe = probe.at("decoder")
        return self.dropout(self.target_positions(self.target_embedding(target_NT, probe), start, probe))

    def _rotation(self, x_BTD: Tensor, start: int, probe: Probe) -> Tensor | None:
        """Return the rotation of the positions of x; None with another positional encoding."""
        return None if self.rotary is None else self.rotary(x_BTD, start, probe)

    def _decode(
        self,
        x_BTD: Tensor,
        key_values: list[KeyValue],
        memory_mask: Mask | None,
        *,
        self_mask: Mask | None,
        caches: list[KeyValueCache] | None = None,
        rotation_TE: Tensor | None,
        probe: Probe,
    ) -> Tensor:
        """Run the decoder over all target tokens, or over the newest with caches of those before."""
        probe = probe.at("decoder")
        for i, layer in enumerate(self.decoder):
            x_BTD = layer(
                x_BTD,
                key_values[i],
                self_mask=self_mask,
                memory_mask=memory_mask,
                cache=caches[i] if caches else None,
                rotation_TE=rotation_TE,
                probe=probe.at(i),
            )
        return probe("hidden", x_BTD) if self.decoder_norm is None else self.decoder_norm(x_BTD, probe, "hidden")


def make_positions(s: TransformerSettings) -> nn.Module:
    """Return the positional encoding of the embeddings that the settings choose."""
    if s.positions in ("none", "rotary"):
        return NoPositions()
    table = (
        SinusoidalPositions(s.d_model) if s.positions == "sinusoidal" else LearnedPositions(s.d_model, s.max_positions)
    )
    return AddPositions(table) if s.combine_positions == "add" else ConcatenatePositions(table, s.d_model)


def zero_output_projections(model: nn.Module) -> None:
    """Set the last matrix of every sub-layer to 0, so that each residual connection begins as the identity."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            nn.init.zeros_(module.output.weight)
        elif isinstance(module, FeedForward):
            nn.init.zeros_(module.contract.weight)
