"""A question and a text in, the answer out as it stands in the text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.data.batching import pad_rows
from glassformer.data.question_answering import ContextWindow, make_windows
from glassformer.decoding.spans import NOWHERE, best_spans, log_probabilities
from glassformer.errors import UserError
from glassformer.glass.questions import NO_ANSWER, QuestionTrace
from glassformer.glass.trace import trace_alone
from glassformer.settings import DataSettings
from glassformer.text.lines import normalize_line
from glassformer.text.tokenizer import EOS, Tokenizer

WINDOWS_AT_ONCE = 32


@dataclass(frozen=True)
class Found:
    """An answer and where it stands in the text, from character `start` to before `end`; None where there is none."""

    answer: str | None
    start: int
    end: int
    probability: float


class Span(NamedTuple):
    """What was found in one window of a text: characters from, to, and log-probabilities, of it and of none."""

    row: int  # which question
    start: int
    end: int
    score: float
    none: float
    first: int = NOWHERE  # token of the window that the span begins with
    last: int = NOWHERE  # and the one that it ends with


def allowed(some: Sequence[ContextWindow], length: int) -> Tensor:
    """Where an answer may be, B×S: in the text, or nowhere."""
    allowed_BS = torch.zeros(len(some), length, dtype=torch.bool)
    allowed_BS[:, NOWHERE] = True
    for i, window in enumerate(some):
        allowed_BS[i, window.first : window.first + len(window.offsets)] = True
    return allowed_BS


def spans_of(log_probability_BS2: Tensor, some: Sequence[ContextWindow]) -> list[Span]:
    """The best span of each window, as characters of its text."""
    best, found = best_spans(log_probability_BS2), list[Span]()
    for window, start, end, score, none in zip(some, *(part.tolist() for part in best), strict=True):
        left, right = window.characters(start, end) if math.isfinite(score) else (0, 0)  # a window may have no text
        found.append(Span(window.row, left, right, score, none, start, end))
    return found


def best_of(spans: Iterable[Span], *, may_be_none: bool) -> Span | None:
    """The best of a text's windows; None where every window says that the answer is not there, if that may be."""
    some = list(spans)
    best = max(some, key=lambda span: span.score)
    nowhere = may_be_none and min(span.none for span in some) > best.score
    return None if nowhere or best.score == -math.inf else best


def _model_input(window: ContextWindow) -> list[int]:
    """Return the tokens that the model reads for a window: for an answer and for its trace alike."""
    return [*window.ids, EOS]


class Answerer:
    """A model with its tokenizer. `answerer("When?", "It was in 1920.")` gives the answer, or None."""

    def __init__(self, model: Any, tokenizer: Tokenizer, data: DataSettings) -> None:
        self.model, self.tokenizer, self.data = model, tokenizer, data

    def __call__(self, question: str, text: str) -> str | None:
        return self.predict([(question, text)])[0].answer

    def predict(self, questions: Sequence[tuple[str, str]]) -> list[Found]:
        """Every question about its text, in order."""
        made = self._asked(questions)
        spans: list[list[Span]] = [[] for _ in questions]
        for i in range(0, len(made), WINDOWS_AT_ONCE):
            for span in self._spans(made[i : i + WINDOWS_AT_ONCE]):
                spans[span.row].append(span)
        return [self._found(text, some) for (_, text), some in zip(questions, spans, strict=True)]

    def windows(self, questions: Sequence[tuple[str, str]]) -> list[ContextWindow]:
        return make_windows(questions, self.tokenizer, longest=self.data.window, overlap=self.data.overlap)

    def _asked(self, questions: Sequence[tuple[str, str]]) -> list[ContextWindow]:
        """Return the windows of questions that are not empty."""
        for number, (question, text) in enumerate(questions, 1):
            if not normalize_line(question) or not normalize_line(text):
                what = "The question is empty." if not normalize_line(question) else "The text is empty."
                raise UserError(what, where=f"question {number}", hint="enter some words")
        return self.windows(questions)

    @torch.inference_mode()
    def _spans(self, some: list[ContextWindow]) -> list[Span]:
        tokens_BS = pad_rows([_model_input(window) for window in some])
        logits_BS2 = self.model(tokens_BS.to(next(self.model.parameters()).device)).cpu()
        return spans_of(log_probabilities(logits_BS2, allowed(some, tokens_BS.shape[1])), some)

    @torch.inference_mode()
    def trace(self, question: str, text: str) -> QuestionTrace:
        """Trace the pass over the window of the text that `predict` takes the answer from.

        Where `predict` finds no answer, the trace has none either. It is then of the window whose probability of no
        answer `predict` reports: the lowest of all windows.
        """
        made = self._asked([(question, text)])
        spans = self._spans(made)
        best = best_of(spans, may_be_none=self.data.no_answer)
        shown = min(spans, key=lambda span: span.none) if best is None else best
        window = made[spans.index(shown)]
        found = trace_alone(self.model, self.tokenizer.pieces, _model_input(window))
        answer = None if best is None else text[best.start : best.end]
        first, last = (NOWHERE, NOWHERE) if best is None else (best.first, best.last)
        place = {"text": window.first, "first": first, "last": last, "answer": answer}
        predicted = [NO_ANSWER if answer is None else answer]
        return QuestionTrace(**(vars(found) | {"predicted": predicted} | place))

    def _found(self, text: str, spans: list[Span]) -> Found:
        best = best_of(spans, may_be_none=self.data.no_answer)
        if best is None:
            return Found(None, 0, 0, math.exp(min(span.none for span in spans)))
        return Found(text[best.start : best.end], best.start, best.end, math.exp(best.score))
