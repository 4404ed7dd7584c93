"""What stands on an encoder: one answer for a whole text or image, one for each token, or a place in the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.models.bert import BERT, MaskedWords, Vectors
from glassformer.nn.attention import attend
from glassformer.nn.dropout import Dropout
from glassformer.nn.linear import Linear
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.nn.recurrent import RecurrentStack, lengths_of
from glassformer.settings import AnyModel, BertSettings, RecurrentEncoderSettings

END = 2  # <eos>: models know no text, but this much of it


class Classifier(nn.Module):
    """Many to one: of each feature its highest value in the text, then a linear layer over the labels.

    On SST-2 the maximum over the text did best; its mean learnt sooner and then fell back, and the last states of
    both directions learnt latest.
    """

    pools = "highest"

    def __init__(self, encoder: Any, labels: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = Linear(encoder.width, labels)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Logits of the labels, B×L."""
        hidden_BSD = self.encoder(tokens_BS, probe)
        padding_BS1 = (tokens_BS == self.encoder.pad)[:, :, None]
        pooled_BD = probe("pooled", hidden_BSD.masked_fill(padding_BS1, float("-inf")).amax(dim=1))
        return probe("logits", self.output(pooled_BD))


class Tagger(nn.Module):
    """Many to many: the linear layer reads the state of every token."""

    def __init__(self, encoder: Any, labels: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = Linear(encoder.width, labels)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Logits of the labels of every token, B×S×L."""
        return probe("logits", self.output(self.encoder(tokens_BS, probe)))


class FirstTokenClassifier(nn.Module):
    """Many to one, as ViT does it: a linear layer reads the first state, which gathered what the rest say."""

    pools = "first"

    def __init__(self, encoder: Any, labels: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = Linear(encoder.width, labels)

    def forward(self, input_B: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Logits of the labels, B×L."""
        pooled_BD = probe("pooled", self.encoder(input_B, probe)[:, 0])
        return probe("logits", self.output(pooled_BD))


class SummaryClassifier(nn.Module):
    """Many to one, as BERT does it: a layer of its own sums up the first state, and the labels are read from that."""

    pools = "first"

    def __init__(self, encoder: BERT, labels: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.summary = Linear(encoder.width, encoder.width)
        self.dropout = Dropout(encoder.dropout.rate)
        self.output = Linear(encoder.width, labels)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Logits of the labels, B×L."""
        pooled_BD = probe("pooled", self.encoder(tokens_BS, probe)[:, 0])
        summary_BD = probe("summary", self.summary(pooled_BD).tanh())
        return probe("logits", self.output(self.dropout(summary_BD)))


class SpanFinder(nn.Module):
    """Where an answer begins and ends: a linear layer reads the state of every token (Devlin et al., 2019, §4.2).

    BERT reads `<sos> question <eos> text <eos>`, in two segments. An answer that begins and ends at `<sos>` is none.
    """

    end = END  # of the question

    def __init__(self, encoder: Any, labels: int = 0) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = Linear(encoder.width, 2)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Logits of beginning and of ending at each token, B×S×2."""
        segments_BS = segments_of(tokens_BS).clamp(max=self.encoder.kinds - 1)
        return probe("logits", self.output(self.encoder(tokens_BS, probe, segments_BS)))


class MatchingSpanFinder(nn.Module):
    """The same for an encoder without attention: each token of the text looks at the question, then both are read.

    Beside what it saw there stands whether the very token occurs in the question (Chen et al., 2017, §3.2): what is
    asked for is seldom far from the words of the question.
    """

    end = END  # of the question

    def __init__(self, encoder: Any, labels: int = 0) -> None:
        super().__init__()
        self.encoder = encoder
        self.question = Linear(encoder.width, encoder.width)
        self.reader = RecurrentStack("gru", 1, 2 * encoder.width + 1, encoder.width, dropout=0.0, bidirectional=True)
        self.dropout = Dropout(encoder.dropout.rate)
        self.output = Linear(encoder.width, 2)

    def forward(self, tokens_BS: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        """Logits of beginning and of ending at each token, B×S×2."""
        hidden_BSD = self.encoder(tokens_BS, probe)
        asked_BS = question_of(tokens_BS)
        mask_B1S = torch.zeros(asked_BS.shape, device=asked_BS.device).masked_fill(~asked_BS, float("-inf"))[:, None]
        look = probe.at("question")
        query_BSD = look("query", self.question(hidden_BSD))
        one_head_B1SD = hidden_BSD[:, None]
        found_B1SD = attend(query_BSD[:, None], one_head_B1SD, one_head_B1SD, mask_B1S[:, None], look)
        found_BSD = look("context", found_B1SD)[:, 0]
        same_BSS = (tokens_BS[:, :, None] == tokens_BS[:, None, :]) & asked_BS[:, None, :]
        occurs_BS1 = probe("occurs", same_BSS.any(dim=2, keepdim=True).to(hidden_BSD.dtype))
        reads = probe.at("reader")
        both_BSD = reads("input", torch.cat([hidden_BSD, found_BSD, occurs_BS1], dim=2))
        read_BSD, _ = self.reader(both_BSD, lengths_B=lengths_of(tokens_BS, self.encoder.pad), probe=reads)
        return probe("logits", self.output(self.dropout(read_BSD)))


def question_of(tokens_BS: Tensor) -> Tensor:
    """Which tokens of `<sos> question <eos> text` are the question's: all before the first `<eos>` but `<sos>`."""
    before_BS = (tokens_BS == END).cumsum(dim=1) == 0
    before_BS[:, 0] = False
    return before_BS


def segments_of(tokens_BS: Tensor) -> Tensor:
    """0 for the question with its `<eos>`, 1 for the text."""
    ends_BS = (tokens_BS == END).long()
    return (ends_BS.cumsum(dim=1) - ends_BS).clamp(max=1)


def head_for(task: str, model: AnyModel) -> Callable[[Any, int], nn.Module] | None:
    """The head that makes an encoder do a task; None where a model does it by itself."""
    if task == "answers" and isinstance(model, RecurrentEncoderSettings):
        return MatchingSpanFinder
    if task == "classification" and isinstance(model, BertSettings) and model.pooling == "first":
        return SummaryClassifier
    return HEADS.get(task)


# For each task, what is given an encoder and the number of labels (of words, where those are what it chooses from).
HEADS: dict[str, Callable[[Any, int], nn.Module]] = {
    "classification": Classifier,
    "tagging": Tagger,
    "images": FirstTokenClassifier,
    "answers": SpanFinder,
    "masked_words": MaskedWords,
    "vectors": Vectors,
}
