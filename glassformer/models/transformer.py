"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017). Section numbers refer to the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from glassformer.nn.attention import CrossAttention, SelfAttention
from glassformer.nn.dropout import Dropout
from glassformer.nn.embedding import Embedding, OutputLayer
from glassformer.nn.feedforward import FeedForward
from glassformer.nn.masks import look_ahead_mask, look_apart_mask, padding_mask
from glassformer.nn.norm import EPSILON, NORMALIZERS, PostNorm, PreNorm
from glassformer.nn.positions import (
    AddPositions,
    ConcatenatePositions,
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
)
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.nn.state import KeyValueCache, sentences_of
from glassformer.settings import TransformerSettings, ViTSettings

NORMS: dict[str, type[PostNorm] | type[PreNorm]] = {"post": PostNorm, "pre": PreNorm}


def around(s: TransformerSettings | ViTSettings, epsilon: float = EPSILON) -> PostNorm | PreNorm:
    """What stands around each sub-layer."""
    return NORMS[s.norm](s.d_model, s.dropout, normalize=s.normalize, residual=s.residual, epsilon=epsilon)


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each inside a residual connection (§3.1)."""

    def __init__(self, s: TransformerSettings | ViTSettings, *, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.self_attention = SelfAttention(s.d_model, s.heads, scaled=s.scale_scores)
        self.self_residual = around(s, epsilon)
        self.feed_forward = FeedForward(s.d_model, s.d_ff, activation=s.activation)
        self.feed_forward_residual = around(s, epsilon)

    def forward(
        self, x_BSD: Tensor, mask: Tensor | None, probe: Probe = NO_PROBE, real_BS: Tensor | None = None
    ) -> Tensor:
        look, think = probe.at("self"), probe.at("ff")
        x_BSD = self.self_residual(x_BSD, lambda x: self.self_attention(x, mask=mask, probe=look), look, real_BS)
        return self.feed_forward_residual(x_BSD, lambda x: self.feed_forward(x, think), think, real_BS)

    def lean(self, x_BSD: Tensor, mask: Tensor | None) -> Tensor:
        """`forward` in inference, when nobody looks: nothing but the arithmetic.

        Decoding has little to compute at a time; modules, probes and dropout that does nothing would cost as much.
        """
        x_BSD = self.self_residual.lean(x_BSD, self.self_attention.lean, None, mask)
        return self.feed_forward_residual.lean(x_BSD, self.feed_forward.lean)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, feed-forward network (§3.1)."""

    def __init__(self, s: TransformerSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(s.d_model, s.heads, scaled=s.scale_scores)
        self.self_residual = around(s)
        self.cross_attention = CrossAttention(s.d_model, s.heads, scaled=s.scale_scores)
        self.cross_residual = around(s)
        self.feed_forward = FeedForward(s.d_model, s.d_ff, activation=s.activation)
        self.feed_forward_residual = around(s)

    def forward(
        self,
        x_BTD: Tensor,
        memory_2BHSE: Tensor,
        *,
        self_mask: Tensor | None,
        memory_mask: Tensor | None,
        cache: KeyValueCache | None = None,
        real_BT: Tensor | None = None,
        probe: Probe = NO_PROBE,
    ) -> Tensor:
        look, cross, think = probe.at("self"), probe.at("cross"), probe.at("ff")
        x_BTD = self.self_residual(
            x_BTD, lambda x: self.self_attention(x, mask=self_mask, cache=cache, probe=look), look, real_BT
        )
        x_BTD = self.cross_residual(
            x_BTD, lambda x: self.cross_attention(x, memory_2BHSE, mask=memory_mask, probe=cross), cross, real_BT
        )
        return self.feed_forward_residual(x_BTD, lambda x: self.feed_forward(x, think), think, real_BT)

    def lean(
        self,
        x_BQD: Tensor,
        memory_2BHSE: Tensor,
        cache: KeyValueCache,
        self_mask: Tensor | None,
        memory_mask: Tensor | None,
    ) -> Tensor:
        """`forward` for the newest tokens, in inference, when nobody looks."""
        x_BQD = self.self_residual.lean(x_BQD, self.self_attention.lean, cache, self_mask)
        x_BQD = self.cross_residual.lean(x_BQD, self.cross_attention.lean, memory_2BHSE, memory_mask)
        return self.feed_forward_residual.lean(x_BQD, self.feed_forward.lean)


@dataclass(frozen=True)
class Memory:
    """What the encoder made of the source."""

    hidden_BSD: Tensor
    mask: Tensor | None


@dataclass(frozen=True)
class State:
    """Where the decoder stands: the tokens read so far, as keys and values, and those of the memory.

    A state is a value: `step`, `select` and `mask` do not change it.

    In a beam search each sentence has `copies` rows. Their keys lie side by side in one cache, which is never
    reordered: `ancestry` says which of them each row descends from.
    """

    copies: int
    step: int
    caches: list[KeyValueCache]
    ancestry_BQK: Tensor | None  # 0 for a row's own past, −∞ for that of others; None with one row a sentence
    memory: list[Tensor]  # keys and values 2×B×H×S×E, a layer each
    memory_mask: Tensor | None

    @property
    def sentences(self) -> int:
        return self.memory[0].shape[1]

    def select(self, rows: Tensor) -> State:
        """The state of these rows. Whole sentences may leave; the rows of a sentence stay together."""
        sentences = sentences_of(rows, self.copies)
        everybody = torch.arange(self.sentences, device=rows.device)
        chosen = self if torch.equal(sentences, everybody) else self._of(sentences)
        if chosen.ancestry_BQK is None:
            return chosen
        parent_BQ1 = (rows % self.copies).view(-1, self.copies, 1)
        return replace(chosen, ancestry_BQK=chosen.ancestry_BQK.gather(1, parent_BQ1.expand(chosen.ancestry_BQK.shape)))

    def mask(self) -> Tensor | None:
        """Return the mask of the next step, B×1×Q×K: each new row sees its own past and itself.

        None with one row per sentence, which sees everything.
        """
        if self.copies == 1:
            return None
        self_BQQ = look_apart_mask(self.copies, self.memory[0].device).expand(self.sentences, -1, -1)
        past = [] if self.ancestry_BQK is None else [self.ancestry_BQK]
        return torch.cat([*past, self_BQQ], dim=2)[:, None]

    def _of(self, sentences: Tensor) -> State:
        return replace(
            self,
            caches=[cache.select(sentences) for cache in self.caches],
            ancestry_BQK=None if self.ancestry_BQK is None else self.ancestry_BQK.index_select(0, sentences),
            memory=[layer_2BHSE.index_select(1, sentences) for layer_2BHSE in self.memory],
            memory_mask=None if self.memory_mask is None else self.memory_mask.index_select(0, sentences),
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
        self.dropout = Dropout(s.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(s) for _ in range(s.encoder_layers))
        self.encoder_norm = NORMALIZERS[s.normalize](s.d_model) if s.norm == "pre" else None
        self.decoder = nn.ModuleList(DecoderLayer(s) for _ in range(s.decoder_layers))
        self.decoder_norm = NORMALIZERS[s.normalize](s.d_model) if s.norm == "pre" else None
        tied = self.target_embedding if s.tie_embeddings else Embedding(vocab, s.d_model)
        self.output = OutputLayer(tied.weight_VD, bias=s.output_bias)
        self.longest = s.longest if s.positions == "learned" else None
        self.hides_future, self.normalizes_batches = s.look_ahead_mask, s.normalize == "batch"

    def forward(self, source_BS: Tensor, target_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Teacher forcing: logits for the token after each of `<sos> Je vais bien`. B×T×V."""
        return probe("logits", self.output(self.hidden(source_BS, target_BT, probe)))

    def hidden(self, source_BS: Tensor, target_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """All target positions at once, each blind to its future: what the output layer reads. B×T×D."""
        memory = self.encode(source_BS, probe)
        if self.hides_future:
            mask: Tensor | None = look_ahead_mask(target_BT.shape[1], target_BT.device)
        else:  # it sees the tokens that it should predict, and learns to copy them
            mask = padding_mask(target_BT, self.pad)
        return self._decode(target_BT, self._remember(memory), memory.mask, self_mask=mask, probe=probe)

    def encode(self, source_BS: Tensor, probe: Probe = NO_PROBE) -> Memory:
        probe = probe.at("encoder")
        mask = padding_mask(source_BS, self.pad)
        x_BSD = self.source_embedding(source_BS, probe)
        x_BSD = probe("input", self.dropout(self.source_positions(x_BSD, probe=probe)))
        real_BS = self._real(source_BS)
        for i, layer in enumerate(cast("list[EncoderLayer]", self.encoder)):
            x_BSD = layer.lean(x_BSD, mask) if self._is_lean(probe) else layer(x_BSD, mask, probe.at(i), real_BS)
        if self.encoder_norm is not None:
            x_BSD = self.encoder_norm(x_BSD, probe, real_BS)
        return Memory(probe("memory", x_BSD), mask)

    def start(self, memory: Memory, copies: int = 1) -> State:
        """Before the first token, with `copies` hypotheses for each sentence of the memory."""
        caches = [KeyValueCache() for _ in self.decoder]
        return State(copies, 0, caches, None, self._remember(memory), memory.mask)

    def step(self, tokens_N: Tensor, state: State, probe: Probe = NO_PROBE) -> tuple[Tensor, State]:
        """One more token for each row: logits of the next, N×V, and the state after it."""
        mask, caches = state.mask(), [cache.copy() for cache in state.caches]
        hidden_N1D = self._decode(
            tokens_N[:, None],
            state.memory,
            state.memory_mask,
            self_mask=mask,
            caches=caches,
            first=state.step,
            probe=probe,
        )
        ancestry_BQK = None if mask is None else mask[:, 0]
        after = replace(state, step=state.step + 1, caches=caches, ancestry_BQK=ancestry_BQK)
        return probe("logits", self.output(hidden_N1D[:, 0])), after

    def _is_lean(self, probe: Probe) -> bool:
        return probe is NO_PROBE and not self.training and not torch.is_grad_enabled()

    def _real(self, tokens_BT: Tensor) -> Tensor | None:
        """Which tokens are no padding, where normalisation asks."""
        return tokens_BT != self.pad if self.normalizes_batches and self.training else None

    def _remember(self, memory: Memory) -> list[Tensor]:
        layers = cast("list[DecoderLayer]", self.decoder)
        return [layer.cross_attention.remember(memory.hidden_BSD) for layer in layers]

    def _decode(
        self,
        target_NT: Tensor,
        memory: list[Tensor],
        memory_mask: Tensor | None,
        *,
        self_mask: Tensor | None,
        caches: list[KeyValueCache] | None = None,
        first: int = 0,
        probe: Probe,
    ) -> Tensor:
        """The decoder over all target tokens with a look-ahead mask, or over the newest with caches of the rest."""
        probe = probe.at("decoder")
        x_NTD = self.target_embedding(target_NT, probe)
        x_NTD = probe("input", self.dropout(self.target_positions(x_NTD, first, probe)))
        # The rows of one sentence become further queries of it, so that they share its keys and values.
        sentences, shape = memory[0].shape[1], x_NTD.shape
        x_BTD = x_NTD.view(sentences, -1, shape[-1])
        layers, real_NT = cast("list[DecoderLayer]", self.decoder), self._real(target_NT)
        for i, layer in enumerate(layers):
            if caches is not None and self._is_lean(probe):
                x_BTD = layer.lean(x_BTD, memory[i], caches[i], self_mask, memory_mask)
                continue
            x_BTD = layer(
                x_BTD,
                memory[i],
                self_mask=self_mask,
                memory_mask=memory_mask,
                cache=caches[i] if caches else None,
                real_BT=real_NT,
                probe=probe.at(i),
            )
        if self.decoder_norm is not None:
            x_BTD = self.decoder_norm(x_BTD, probe, real_NT)
        return probe("hidden", x_BTD.view(shape))

    @staticmethod
    def work(s: TransformerSettings, vocab: int) -> tuple[int, int]:
        """Multiplications that a source token and a target token take, but for the scores."""
        d, ff = s.d_model, s.d_ff
        return s.encoder_layers * (4 * d * d + 2 * d * ff), s.decoder_layers * (8 * d * d + 2 * d * ff) + d * vocab

    @staticmethod
    def kept(s: TransformerSettings) -> int:
        """Numbers that training keeps of a token, on both sides, for the way back."""
        return (s.encoder_layers + 2 * s.decoder_layers) * (12 * s.d_model + 2 * s.d_ff)


def make_positions(s: TransformerSettings) -> nn.Module:
    if s.positions == "none":
        return NoPositions()
    table = SinusoidalPositions(s.d_model) if s.positions == "sinusoidal" else LearnedPositions(s.d_model, s.longest)
    return AddPositions(table) if s.combine_positions == "add" else ConcatenatePositions(table, s.d_model)
