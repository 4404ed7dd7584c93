"""BERT (Devlin et al., 2019): the Transformer's encoder alone, and the words that it is taught to guess."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.attention import SelfAttention
from glassformer.nn.dropout import Dropout
from glassformer.nn.embedding import Embedding
from glassformer.nn.feedforward import ACTIVATIONS, FeedForward
from glassformer.nn.linear import Linear
from glassformer.nn.masks import padding_mask
from glassformer.nn.norm import LayerNorm, PostNorm
from glassformer.nn.positions import AddPositions, LearnedPositions
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.settings import BertSettings

DEVIATION = 0.02  # of fresh embeddings; matrices are drawn by their shape, as in every family here


class Layer(nn.Module):
    """Self-attention, then a feed-forward network: LayerNorm(x + SubLayer(x)), twice."""

    def __init__(self, s: BertSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(s.d_model, s.heads)
        self.self_residual = PostNorm(s.d_model, s.dropout, epsilon=s.norm_epsilon)
        self.feed_forward = FeedForward(s.d_model, s.d_ff, activation=s.activation)
        self.feed_forward_residual = PostNorm(s.d_model, s.dropout, epsilon=s.norm_epsilon)

    def forward(self, x_BSD: Tensor, mask: Tensor | None, probe: Probe = NO_PROBE) -> Tensor:
        look, think = probe.at("self"), probe.at("ff")
        x_BSD = self.self_residual(x_BSD, lambda x: self.self_attention(x, mask=mask, probe=look), look)
        return self.feed_forward_residual(x_BSD, lambda x: self.feed_forward(x, think), think)


class BERT(nn.Module):
    """Tokens + segments + positions, normalised, then N layers: hidden states for a head to read (`heads.py`)."""

    reads_sos = True  # before a text: BERT's [CLS], as <eos> is its [SEP]

    def __init__(self, s: BertSettings, vocab: int, *, pad: int) -> None:
        super().__init__()
        self.pad, self.width, self.longest, self.kinds = pad, s.d_model, s.longest, s.segments
        self.activation, self.epsilon = s.activation, s.norm_epsilon
        self.tokens = Embedding(vocab, s.d_model, scaled=False)
        self.segments = Embedding(s.segments, s.d_model, scaled=False)
        positions = LearnedPositions(s.d_model, s.longest)
        self.positions = AddPositions(positions)
        self.input_norm = LayerNorm(s.d_model, s.norm_epsilon)
        self.dropout = Dropout(s.dropout)
        self.encoder = nn.ModuleList(Layer(s) for _ in range(s.layers))
        for vectors in (self.tokens.weight_VD, self.segments.weight_VD, positions.weight_TD):
            vectors.detach().normal_(std=DEVIATION)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE, segments_BS: Tensor | None = None) -> Tensor:
        """The states of the uppermost layer, B×S×D; all of one segment if none are told apart.

        What stands at padding is not defined.
        """
        probe = probe.at("encoder")
        mask = padding_mask(tokens_BS, self.pad)
        x_BSD = self.tokens(tokens_BS, probe)
        segments_BS = probe("segments", torch.zeros_like(tokens_BS) if segments_BS is None else segments_BS)
        x_BSD = x_BSD + probe("segment_vectors", self.segments(segments_BS))
        x_BSD = probe("sum", self.positions(x_BSD, probe=probe))
        x_BSD = probe("input", self.dropout(self.input_norm(x_BSD, probe)))
        for i, layer in enumerate(cast("list[Layer]", self.encoder)):
            x_BSD = layer(x_BSD, mask, probe.at(i))
        return probe("hidden", x_BSD)

    @staticmethod
    def work(s: BertSettings, vocab: int) -> tuple[int, int]:
        """Multiplications that a token takes, but for the scores, and one of a target, of which there is none."""
        return s.layers * (4 * s.d_model**2 + 2 * s.d_model * s.d_ff), 0

    @staticmethod
    def kept(s: BertSettings) -> int:
        """Numbers that training keeps of a token for the way back."""
        return s.layers * (12 * s.d_model + 3 * s.d_ff)


class MaskedWords(nn.Module):
    """What pre-training puts on BERT: a layer of its own, then the embedding again, to say which token was hidden."""

    def __init__(self, encoder: BERT, vocab: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.transform = Linear(encoder.width, encoder.width)
        self.norm = LayerNorm(encoder.width, encoder.epsilon)
        self.bias_V = nn.Parameter(torch.zeros(vocab))

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE, segments_BS: Tensor | None = None) -> Tensor:
        """Logits of what stands at every place, B×S×V."""
        return probe("logits", self.guess(self.encoder(tokens_BS, probe, segments_BS), probe.at("guess")))

    def guess(self, hidden_ND: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Logits from the states of the places that somebody asks about, N×V."""
        active_ND = probe("activations", ACTIVATIONS[self.encoder.activation](self.transform(hidden_ND)))
        normed_ND = probe("norm", self.norm(active_ND, probe))
        return F.linear(normed_ND, self.encoder.tokens.weight_VD, self.bias_V)


class Vectors(nn.Module):
    """One vector for a whole text: the mean of its states, of length 1 (Reimers & Gurevych, 2019)."""

    pools = "mean"

    def __init__(self, encoder: BERT, labels: int = 0) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """B×D."""
        hidden_BSD = self.encoder(tokens_BS, probe)
        real_BS1 = (tokens_BS != self.encoder.pad)[:, :, None]
        mean_BD = probe("pooled", hidden_BSD.where(real_BS1, 0).sum(dim=1) / real_BS1.sum(dim=1))
        return probe("vector", F.normalize(mean_BD, dim=-1))
