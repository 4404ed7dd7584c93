"""Extractive question answering: a question and a text in, a span of the text out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from glassformer.data.batching import pad_rows
from glassformer.data.question_answering import ContextWindow, make_windows
from glassformer.decoding.spans import NO_ANSWER_POSITION, best_spans, log_probabilities
from glassformer.errors import UserError
from glassformer.settings import DataSettings
from glassformer.text.lines import normalize_line
from glassformer.text.tokenizer import EOS, Tokenizer

if TYPE_CHECKING:
    from glassformer.glass.question_trace import QuestionTrace

BATCH_WINDOWS = 32


@dataclass(frozen=True)
class AnswerSpan:
    """An answer (None if there is none), its characters `text[start:end]`, and its probability."""

    answer: str | None
    start: int
    end: int
    probability: float


class WindowSpan(NamedTuple):
    """The best span of one window.

    Attributes:
        row: index of the question.
        start, end: characters of the text.
        score, no_answer: log-probabilities of the span and of no answer.
        first, last: token positions in the window.
    """

    row: int
    start: int
    end: int
    score: float
    no_answer: float
    first: int = NO_ANSWER_POSITION
    last: int = NO_ANSWER_POSITION


def allowed_positions(batch: Sequence[ContextWindow], length: int) -> Tensor:
    """Return the mask of positions where an answer may start or end, B×S: the text, and `NO_ANSWER_POSITION`."""
    allowed_BS = torch.zeros(len(batch), length, dtype=torch.bool)
    allowed_BS[:, NO_ANSWER_POSITION] = True
    for i, window in enumerate(batch):
        allowed_BS[i, window.first : window.first + len(window.offsets)] = True
    return allowed_BS


def window_spans(log_probability_BS2: Tensor, batch: Sequence[ContextWindow]) -> list[WindowSpan]:
    """Return the best span of each window."""
    best, found = best_spans(log_probability_BS2), list[WindowSpan]()
    for window, start, end, score, no_answer in zip(batch, *(part.tolist() for part in best), strict=True):
        left, right = window.characters(start, end) if math.isfinite(score) else (0, 0)  # a window may have no text
        found.append(WindowSpan(window.row, left, right, score, no_answer, start, end))
    return found


def best_window_span(spans: Iterable[WindowSpan], *, allow_no_answer: bool) -> WindowSpan | None:
    """Return the best span over the windows of a text.

    With `allow_no_answer`, return None if "no answer" is more probable than the best span in every window.
    """
    spans = list(spans)
    best = max(spans, key=lambda span: span.score)
    no_answer = allow_no_answer and min(span.no_answer for span in spans) > best.score
    return None if no_answer or best.score == -math.inf else best


class QuestionAnswerer:
    """An extractive question answering model: returns the answer, or None if the text has none.

    Example:
        >>> answerer = gf.load("runs/qa")
        >>> answerer("When was it?", "It was in the 1920s.")
        '1920s'
    """

    def __init__(self, model: Any, tokenizer: Tokenizer, data: DataSettings) -> None:
        self.model, self.tokenizer, self.data = model, tokenizer, data
        self.fast_model = model  # as in `SequencePredictor`

    def __call__(self, question: str, text: str) -> str | None:
        return self.predict([(question, text)])[0].answer

    def predict(self, questions: Sequence[tuple[str, str]]) -> list[AnswerSpan]:
        """Answer every (question, text) pair."""
        encoded = self.encode(questions)
        spans: list[list[WindowSpan]] = [[] for _ in questions]
        for i in range(0, len(encoded), BATCH_WINDOWS):
            for span in self.spans(encoded[i : i + BATCH_WINDOWS]):
                spans[span.row].append(span)
        return [self._answer(text, of_text) for (_, text), of_text in zip(questions, spans, strict=True)]

    def encode(self, questions: Sequence[tuple[str, str]]) -> list[ContextWindow]:
        """Return the windows that the model reads for (question, text) pairs; a long text has several."""
        for number, (question, text) in enumerate(questions, 1):
            if not normalize_line(question) or not normalize_line(text):
                empty = "The text is empty." if normalize_line(question) else "The question is empty."
                raise UserError(empty, where=f"question {number}", hint="enter some words")
        return make_windows(questions, self.tokenizer, longest=self.data.window, overlap=self.data.overlap)

    @staticmethod
    def model_input(window: ContextWindow) -> list[int]:
        """Return the token ids that the model reads for a window."""
        return [*window.ids, EOS]

    @torch.inference_mode()
    def spans(self, batch: list[ContextWindow]) -> list[WindowSpan]:
        """Return the best span of each window of a batch."""
        tokens_BS = pad_rows([self.model_input(window) for window in batch])
        logits_BS2 = self.fast_model(tokens_BS.to(next(self.model.parameters()).device)).cpu()
        return window_spans(log_probabilities(logits_BS2, allowed_positions(batch, tokens_BS.shape[1])), batch)

    def trace(self, question: str, text: str) -> QuestionTrace:
        """Trace the forward pass over the window that `predict` takes the answer from."""
        from glassformer.glass.question_trace import trace_question

        return trace_question(self, question, text)

    def _answer(self, text: str, spans: list[WindowSpan]) -> AnswerSpan:
        best = best_window_span(spans, allow_no_answer=self.data.no_answer)
        if best is None:
            return AnswerSpan(None, 0, 0, math.exp(min(span.no_answer for span in spans)))
        return AnswerSpan(text[best.start : best.end], best.start, best.end, math.exp(best.score))
