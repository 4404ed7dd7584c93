"""Pronoun resolution by attention heads: how often a head attends more to the right one of two nouns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.nn.probe import Recorder

BATCH_SENTENCES = 64


@dataclass(frozen=True)
class NounPairCase:
    """A sentence with a token that refers to one of two nouns.

    Attributes:
        tokens: the model input.
        query: position of the referring token.
        correct, other: positions of the tokens of the two nouns.
        correct_first: whether the correct noun comes first.
    """

    tokens: list[int]
    query: int
    correct: list[int]
    other: list[int]
    correct_first: bool


@dataclass(frozen=True)
class HeadAccuracy:
    """How often a head attends more to the correct noun, where that comes first, and where it comes second."""

    layer: int
    head: int
    first: float
    second: float

    @property
    def accuracy(self) -> float:
        """The mean of both: 0.5 by chance, and for a head that always prefers the same position."""
        return (self.first + self.second) / 2


@torch.inference_mode()
def head_accuracies(model: Any, cases: Sequence[NounPairCase], pad: int) -> list[HeadAccuracy]:
    """Return the accuracy of every encoder head, layer by layer."""
    starts = range(0, len(cases), BATCH_SENTENCES)
    right_NLH = torch.cat([_is_right(model, cases[i : i + BATCH_SENTENCES], pad) for i in starts])
    first_N = torch.tensor([case.correct_first for case in cases])
    first_LH, second_LH = (right_NLH[chosen_N].double().mean(dim=0) for chosen_N in (first_N, ~first_N))
    layers, heads = first_LH.shape
    return [
        HeadAccuracy(layer, head, float(first_LH[layer, head]), float(second_LH[layer, head]))
        for layer in range(layers)
        for head in range(heads)
    ]


def _is_right(model: Any, cases: Sequence[NounPairCase], pad: int) -> Tensor:
    """Return whether each head attends more to the correct noun, N×L×H."""
    longest = max(len(case.tokens) for case in cases)
    rows = [[*case.tokens, *[pad] * (longest - len(case.tokens))] for case in cases]
    recorder = Recorder("encoder.*.self.weights", copy=False)
    model.encode(torch.tensor(rows, device=next(model.parameters()).device), recorder)
    weights_LNHQK = torch.stack(list(recorder.tensors.values())).cpu()
    right = []
    for n, case in enumerate(cases):
        weights_LHK = weights_LNHQK[:, n, :, case.query]
        right.append(weights_LHK[..., case.correct].sum(dim=-1) > weights_LHK[..., case.other].sum(dim=-1))
    return torch.stack(right)
