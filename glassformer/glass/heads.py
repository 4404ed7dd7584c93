"""Which heads of an encoder look from one token at the right one of two others: asked of many sentences at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.nn.probe import Recorder

SENTENCES_AT_ONCE = 64


@dataclass(frozen=True)
class Question:
    """A sentence, the token that should look, and the tokens of the two nouns that it might look at."""

    tokens: list[int]
    looks: int
    meant: list[int]
    other: list[int]
    first: bool  # the noun that is meant stands before the other


@dataclass(frozen=True)
class Answer:
    """How often a head looks more at the noun that is meant than at the other, where it stands first or second."""

    layer: int
    head: int
    first: float
    second: float

    @property
    def accuracy(self) -> float:
        """The mean of the two: 0.5 by chance, and for any head that always prefers the same one."""
        return (self.first + self.second) / 2


@torch.inference_mode()
def answers(model: Any, questions: Sequence[Question], pad: int) -> list[Answer]:
    """Of every encoder head, layer by layer."""
    right = torch.cat([_right(model, some, pad) for some in _chunks(questions)])
    first_N = torch.tensor([question.first for question in questions])
    shares = [right[chosen_N].double().mean(dim=0).tolist() for chosen_N in (first_N, ~first_N)]
    return [
        Answer(layer, head, of_first, of_second)
        for layer, (firsts, seconds) in enumerate(zip(*shares, strict=True))
        for head, (of_first, of_second) in enumerate(zip(firsts, seconds, strict=True))
    ]


def _right(model: Any, questions: Sequence[Question], pad: int) -> Tensor:
    """Whether each head looks more at the noun that is meant: N×L×H."""
    longest = max(len(question.tokens) for question in questions)
    rows = [[*question.tokens, *[pad] * (longest - len(question.tokens))] for question in questions]
    recorder = Recorder("encoder.*.self.weights", copy=False)
    model.encode(torch.tensor(rows, device=next(model.parameters()).device), recorder)
    weights_LNHQK = torch.stack(list(recorder.tensors.values())).cpu()
    right = []
    for n, question in enumerate(questions):
        looked_LHK = weights_LNHQK[:, n, :, question.looks]
        right.append(looked_LHK[..., question.meant].sum(dim=-1) > looked_LHK[..., question.other].sum(dim=-1))
    return torch.stack(right)


def _chunks(questions: Sequence[Question]) -> Iterator[Sequence[Question]]:
    for start in range(0, len(questions), SENTENCES_AT_ONCE):
        yield questions[start : start + SENTENCES_AT_ONCE]
