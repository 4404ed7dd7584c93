"""Looking at a model that answers: which words of the question the text around the answer looked at."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.glass.trace import Choice, Trace
from glassformer.glass.views import LEGEND, attention_grid, one_head, readable

NO_ANSWER = "<no answer>"
AROUND = 4  # pieces of the text shown before and behind the answer


@dataclass(frozen=True, kw_only=True)
class QuestionTrace(Trace):
    """What a model computed for one question about one text; its source is `<sos> question <eos> text <eos>`."""

    text: int  # where the text begins in it
    first: int  # piece of the answer; where there is none, that of `<sos>`, which the model points at instead
    last: int
    answer: str | None  # None where the text has no answer

    def choices(self, most: int = 0) -> list[list[Choice]]:
        """None: it chooses places, not what stands there."""
        return []


def question_view(trace: QuestionTrace, layer: int = -1, head: int | None = None) -> list[str]:
    """One line a piece of the text, one block a piece of the question; the lines of the answer are marked."""
    kind = "question" if "question.weights" in trace.tensors else "encoder"  # in BERT, everything looks at everything
    around = _shown_rows(trace)
    weights_QK = one_head(trace.attention(kind, layer), head)[around, 1 : trace.text - 1]
    rows = [f"{'> ' if trace.first <= i <= trace.last else ''}{readable(trace.source[i])}" for i in around]
    grid = attention_grid(weights_QK, rows, trace.source[1 : trace.text - 1])
    return [*grid, "", LEGEND, "", f"answer: {NO_ANSWER if trace.answer is None else trace.answer}"]


def _shown_rows(trace: QuestionTrace) -> list[int]:
    """Return the rows of the answer and around it; without an answer that of `<sos>` and the beginning of the text."""
    end = len(trace.source) - 1
    if trace.answer is None:
        return [trace.first, *range(trace.text, min(end, trace.text + 2 * AROUND))]
    return list(range(max(trace.text, trace.first - AROUND), min(end, trace.last + 1 + AROUND)))
