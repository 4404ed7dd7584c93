"""Looking at a model that answers: which words of the question the text around the answer looked at."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from glassformer.errors import UserError
from glassformer.glass.views import LEGEND, attention_grid, readable

AROUND = 4  # pieces of the text shown before and behind the answer


@dataclass(frozen=True)
class QuestionTrace:
    """What a model computed for one question about one text, by name: `trace["question.weights"]`."""

    pieces: list[str]  # `<sos> question <eos> text <eos>`
    text: int  # where the text begins in them
    first: int  # piece of the answer
    last: int
    answer: str
    tensors: dict[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]


def question_view(trace: QuestionTrace) -> list[str]:
    """One line a piece of the text, one block a piece of the question; the lines of the answer are marked."""
    if "question.weights" not in trace.tensors:
        raise UserError(
            "This model has no attention to the question alone.", fix="see what it has: list(answerer.trace(…).tensors)"
        )
    around = range(max(trace.text, trace.first - AROUND), min(len(trace.pieces) - 1, trace.last + 1 + AROUND))
    weights_QK = trace["question.weights"][list(around), 1 : trace.text - 1]
    rows = [f"{'> ' if trace.first <= i <= trace.last else ''}{readable(trace.pieces[i])}" for i in around]
    return [*attention_grid(weights_QK, rows, trace.pieces[1 : trace.text - 1]), "", LEGEND]
