"""Heads: output layers on top of an encoder, for classification, tagging, question answering and masked tokens."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.models.bert import BERT, Segments
from glassformer.nn.attention import attend
from glassformer.nn.dropout import Dropout
from glassformer.nn.feed_forward import ACTIVATIONS
from glassformer.nn.linear import Linear
from glassformer.nn.masks import Mask
from glassformer.nn.norm import LayerNorm
from glassformer.nn.probe import NO_PROBE, Named, Probe
from glassformer.nn.recurrent import RecurrentStack, lengths_of
from glassformer.reference import attention as attention_ops
from glassformer.reference import embeddings as embedding_ops
from glassformer.reference import layers as ops
from glassformer.text.special_tokens import EOS


class Head(nn.Module):
    """Base class of heads: an encoder and the output layers of a task."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder

    @property
    def pad(self) -> int:
        """The padding token."""
        return int(self.encoder.pad)

    @property
    def max_positions(self) -> int | None:
        """The maximum sequence length; None where there is none."""
        return self.encoder.max_positions


class LabelHead(Head):
    """A head with a linear layer to the labels."""

    def __init__(self, encoder: Any, labels: int) -> None:
        super().__init__(encoder)
        self.output = Linear(encoder.width, labels)

    def label_logits(self, hidden_ND: Tensor, probe: Probe) -> Tensor:
        return probe("logits", self.output(hidden_ND), ops.label_projection, hidden_ND, *self.output.part())


class Classifier(LabelHead):
    """Text classification: max pooling over the tokens, then a linear layer.

    On SST-2, max pooling had the highest accuracy; mean pooling was ahead only early in training, and the last states
    of both directions converged slowest.
    """

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the logits of the labels, B×L."""
        hidden_BSD = self.encoder(tokens_BS, probe)
        padding_BS1 = (tokens_BS == self.encoder.pad)[:, :, None]
        pooled_BD = hidden_BSD.masked_fill(padding_BS1, float("-inf")).amax(dim=1)
        pooled_BD = probe("pooled", pooled_BD, ops.max_pool, hidden_BSD)
        return self.label_logits(pooled_BD, probe)


class Tagger(LabelHead):
    """Token classification (tagging): a linear layer over the hidden state of every token."""

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the logits of the labels of every token, B×S×L."""
        hidden_BSD = self.encoder(tokens_BS, probe)
        return self.label_logits(hidden_BSD, probe)


class FirstTokenClassifier(LabelHead):
    """Classification from the first hidden state, as in ViT."""

    def forward(self, input_B: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the logits of the labels, B×L."""
        hidden_BPD = self.encoder(input_B, probe)
        pooled_BD = probe("pooled", hidden_BPD[:, 0], ops.first, hidden_BPD)
        return self.label_logits(pooled_BD, probe)


class PoolerClassifier(Head):
    """Classification from the first hidden state through a tanh layer (pooler), as in BERT."""

    def __init__(self, encoder: BERT, labels: int) -> None:
        super().__init__(encoder)
        self.summary = Linear(encoder.width, encoder.width)
        self.dropout = Dropout(encoder.dropout.rate)
        self.output = Linear(encoder.width, labels)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the logits of the labels, B×L."""
        hidden_BSD = self.encoder(tokens_BS, probe)
        pooled_BD = probe("pooled", hidden_BSD[:, 0], ops.first, hidden_BSD)
        summary_BD = probe("summary", self.summary(pooled_BD).tanh(), ops.pooler, pooled_BD, *self.summary.part())
        logits_BL = self.output(self.dropout(summary_BD))
        return probe("logits", logits_BL, ops.label_projection, summary_BD, *self.output.part())


class SpanFinder(LabelHead):
    """Extractive question answering: start and end logits of every token (Devlin et al., 2019, §4.2).

    BERT reads `<sos> question <eos> text <eos>` in two segments. A span from `<sos>` to `<sos>` means no answer.
    """

    def __init__(self, encoder: Any, labels: int = 0) -> None:
        super().__init__(encoder, 2)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the start and end logits of every token, B×S×2."""
        count = self.encoder.segment_count
        segments = Segments(
            segments_of(tokens_BS).clamp(max=count - 1), embedding_ops.segments, (tokens_BS, EOS, count)
        )
        hidden_BSD = self.encoder(tokens_BS, probe, segments)
        return self.label_logits(hidden_BSD, probe)


class MatchingSpanFinder(Head):
    """Extractive question answering on an encoder without attention (Chen et al., 2017).

    Each token attends to the question; a recurrent layer then reads its hidden state, the output of this attention, and
    whether the token occurs in the question (§3.2). Answers are often near words of the question.
    """

    def __init__(self, encoder: Any, labels: int = 0) -> None:
        super().__init__(encoder)
        self.question = Linear(encoder.width, encoder.width)
        self.reader = RecurrentStack("gru", 1, 2 * encoder.width + 1, encoder.width, dropout=0.0, bidirectional=True)
        self.dropout = Dropout(encoder.dropout.rate)
        self.output = Linear(encoder.width, 2)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the start and end logits of every token, B×S×2."""
        hidden_BSD = self.encoder(tokens_BS, probe)
        asked_BS = question_of(tokens_BS)
        context_BSD = self._context(tokens_BS, hidden_BSD, asked_BS, probe.at("question"))
        same_BSS = (tokens_BS[:, :, None] == tokens_BS[:, None, :]) & asked_BS[:, None, :]
        occurs_BS1 = same_BSS.any(dim=2, keepdim=True).to(hidden_BSD.dtype)
        occurs_BS1 = probe("occurs", occurs_BS1, embedding_ops.occurs, tokens_BS, Named(probe.full("question.mask")))
        reader = probe.at("reader")
        both_BSD = torch.cat([hidden_BSD, context_BSD, occurs_BS1], dim=2)
        both_BSD = reader("input", both_BSD, ops.concat, hidden_BSD, context_BSD, occurs_BS1)
        read_BSD, _ = self.reader(both_BSD, lengths_B=lengths_of(tokens_BS, self.encoder.pad), probe=reader)
        logits_BS2 = self.output(self.dropout(read_BSD))
        return probe("logits", logits_BS2, ops.label_projection, read_BSD, *self.output.part())

    def _context(self, tokens_BS: Tensor, hidden_BSD: Tensor, asked_BS: Tensor, probe: Probe) -> Tensor:
        """Return the output of attention from each token to the question, B×S×D."""
        hidden_mask_BS = torch.zeros(asked_BS.shape, device=asked_BS.device).masked_fill(~asked_BS, float("-inf"))
        mask = Mask(hidden_mask_BS[:, None, None], attention_ops.question_mask, (tokens_BS, EOS))
        query_BSD = self.question(hidden_BSD)
        query_BSD = probe("query", query_BSD, ops.query_projection, hidden_BSD, *self.question.part())
        hidden_B1SD = hidden_BSD[:, None]
        context_B1SD = attend(
            query_BSD[:, None], hidden_B1SD, hidden_B1SD, mask, probe, scores_operation=attention_ops.hidden_products
        )
        return probe("context", context_B1SD, attention_ops.context_vector, "weights", hidden_BSD)[:, 0]


class MaskedLanguageModel(Head):
    """BERT's pre-training head: a transform layer, then an output layer tied to the embedding."""

    def __init__(self, encoder: BERT, vocab: int) -> None:
        super().__init__(encoder)
        self.transform = Linear(encoder.width, encoder.width)
        self.norm = LayerNorm(encoder.width, encoder.epsilon)
        self.bias_V = nn.Parameter(torch.zeros(vocab))

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE, segments: Segments | None = None) -> Tensor:
        """Return the logits at every position, B×S×V."""
        return self.predict(self.encoder(tokens_BS, probe, segments), probe)

    def predict(self, hidden_ND: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return the logits at some positions from their hidden states, N×V."""
        inner, activation = probe.at("prediction"), self.encoder.activation
        active_ND = ACTIVATIONS[activation](self.transform(hidden_ND))
        active_ND = inner("activations", active_ND, ops.ACTIVATIONS[activation], hidden_ND, *self.transform.part())
        normed_ND = self.norm(active_ND, inner)
        weight_VD = self.encoder.tokens.weight_VD
        logits_NV = F.linear(normed_ND, weight_VD, self.bias_V)
        return probe("logits", logits_NV, ops.biased_output_projection, normed_ND, weight_VD, self.bias_V)


class SentenceEmbedding(Head):
    """One vector for a text: the mean of its hidden states, of length 1 (Reimers & Gurevych, 2019)."""

    def __init__(self, encoder: BERT, labels: int = 0) -> None:
        super().__init__(encoder)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Return B×D."""
        hidden_BSD = self.encoder(tokens_BS, probe)
        real_BS1 = (tokens_BS != self.encoder.pad)[:, :, None]
        mean_BD = hidden_BSD.where(real_BS1, 0).sum(dim=1) / real_BS1.sum(dim=1)
        mean_BD = probe("pooled", mean_BD, ops.mean_pool, hidden_BSD)
        return probe("vector", F.normalize(mean_BD, dim=-1), ops.unit, mean_BD)


def question_of(tokens_BS: Tensor) -> Tensor:
    """Return which tokens of `<sos> question <eos> text` belong to the question: those between `<sos>` and `<eos>`."""
    before_BS = (tokens_BS == EOS).cumsum(dim=1) == 0
    before_BS[:, 0] = False
    return before_BS


def segments_of(tokens_BS: Tensor) -> Tensor:
    """Return the segment of each token: 0 for the question and its `<eos>`, 1 for the text."""
    ends_BS = (tokens_BS == EOS).long()
    return (ends_BS.cumsum(dim=1) - ends_BS).clamp(max=1)
