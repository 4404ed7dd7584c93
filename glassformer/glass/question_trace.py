"""Traces of question answering: the attention of the tokens around the answer to the question."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.decoding.spans import NO_ANSWER_POSITION
from glassformer.glass.heatmap import Heatmap, display_token, display_tokens, head_weights
from glassformer.glass.terminal import LEGEND, heatmap_view
from glassformer.glass.trace import NextToken, Trace, trace_sequence
from glassformer.inference.question_answering import QuestionAnswerer, best_window_span

NO_ANSWER = "<no answer>"
CONTEXT_TOKENS = 4  # tokens of the text shown before and after the answer


@dataclass(frozen=True, kw_only=True)
class QuestionTrace(Trace):
    """The trace of one question about a text; its source is `<sos> question <eos> text <eos>`.

    Attributes:
        text: position of the first token of the text.
        first, last: positions of the answer; that of `<sos>` if there is no answer.
        answer: None if there is no answer.
    """

    text: int
    first: int
    last: int
    answer: str | None

    def next_tokens(self, count: int = 0) -> list[list[NextToken]]:
        """Return nothing: the model predicts positions, not tokens."""
        return []

    def view(self, kind: str | None = None, layer: int = -1, head: int | None = None) -> list[str]:
        return question_view(self, layer, head) if kind is None else super().view(kind, layer, head)


def trace_question(answerer: QuestionAnswerer, question: str, text: str) -> QuestionTrace:
    """Trace the pass over the window of the text that `answerer.predict` takes the answer from.

    If there is no answer, trace the window whose probability of no answer `predict` reports, the lowest of all.
    """
    windows = answerer.encode([(question, text)])
    spans = answerer.spans(windows)
    best = best_window_span(spans, allow_no_answer=answerer.data.no_answer)
    shown = min(spans, key=lambda span: span.no_answer) if best is None else best
    window = windows[spans.index(shown)]
    found = trace_sequence(answerer.model, answerer.tokenizer.pieces, answerer.model_input(window))
    answer = None if best is None else text[best.start : best.end]
    first, last = (NO_ANSWER_POSITION, NO_ANSWER_POSITION) if best is None else (best.first, best.last)
    fields = vars(found) | {"predicted": [NO_ANSWER if answer is None else answer]}
    return QuestionTrace(**fields, text=window.first, first=first, last=last, answer=answer)


def question_view(trace: QuestionTrace, layer: int = -1, head: int | None = None) -> list[str]:
    """Draw one line per token around the answer, one block per token of the question; `>` marks the answer."""
    kind = "question" if trace.layers_of_kind("question") else "encoder"  # BERT attends to question and text
    positions, question = _shown_positions(trace), slice(1, trace.text - 1)
    heatmap = Heatmap(
        [f"{'> ' if trace.first <= i <= trace.last else ''}{display_token(trace.source[i])}" for i in positions],
        display_tokens(trace.source[question]),
        head_weights(trace.attention(kind, layer), head)[positions, question].tolist(),
    )
    answer = NO_ANSWER if trace.answer is None else trace.answer
    return [*heatmap_view(heatmap), "", LEGEND, "", f"answer: {answer}"]


def _shown_positions(trace: QuestionTrace) -> list[int]:
    """Return the positions around the answer; without an answer, `<sos>` and the beginning of the text."""
    end = len(trace.source) - 1
    if trace.answer is None:
        return [trace.first, *range(trace.text, min(end, trace.text + 2 * CONTEXT_TOKENS))]
    return list(range(max(trace.text, trace.first - CONTEXT_TOKENS), min(end, trace.last + 1 + CONTEXT_TOKENS)))
