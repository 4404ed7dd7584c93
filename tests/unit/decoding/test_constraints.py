"""Constraints forbid exactly the tokens that they should."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from glassformer.decoding import Constraint
from glassformer.decoding.constraints import combine, min_length, no_repeated_ngram

V = 7


def forbidden(constraint: Constraint, output_NT: Tensor, row: int = 0) -> list[int]:
    """Return the tokens whose logits become −∞; all other logits must be unchanged."""
    before_NV = torch.arange(float(len(output_NT) * V)).view(-1, V)
    after_NV = before_NV.clone()
    constraint(output_NT, after_NV)
    gone_NV = after_NV == float("-inf")
    assert torch.equal(after_NV[~gone_NV], before_NV[~gone_NV])
    return gone_NV[row].nonzero()[:, 0].tolist()


@pytest.mark.parametrize(
    ("n", "output", "expected"),
    [
        (1, [3, 5, 3], [3, 5]),
        (2, [3, 5, 3], [5]),  # "3 5" occurred before
        (2, [3, 3], [3]),
        (2, [3], []),
        (2, [3, 5, 4], []),
        (3, [3, 5, 4, 3, 5], [4]),
        (3, [3, 5, 4, 3, 5, 6, 3, 5], [4, 6]),
        (3, [3, 5, 4, 5, 3], []),
        (3, [3, 3, 3], [3]),
        (3, [3, 3], []),
    ],
)
def test_no_repeated_ngram(n: int, output: list[int], expected: list[int]) -> None:
    assert forbidden(no_repeated_ngram(n), torch.tensor([output])) == expected


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_repeated_ngram_forbids_exactly_the_repetitions(n: int) -> None:
    for output in itertools.product(range(3), repeat=5):
        before = [output[i : i + n] for i in range(5 - n + 1)]
        would = [token for token in range(V) if (*output, token)[5 - n + 1 :] in before]
        assert forbidden(no_repeated_ngram(n), torch.tensor([output])) == would


def test_rows_are_independent() -> None:
    outputs = torch.tensor([[3, 5, 3], [4, 4, 6], [6, 1, 6]])
    assert [forbidden(no_repeated_ngram(2), outputs, row) for row in range(3)] == [[5], [], [1]]


def test_min_length_forbids_eos_until_then() -> None:
    for length, expected in ((0, [2]), (1, [2]), (2, [])):
        assert forbidden(min_length(2, eos=2), torch.full((3, length), 4), row=1) == expected


def test_combine_forbids_the_union() -> None:
    both = combine(no_repeated_ngram(1), min_length(1, 2), no_repeated_ngram(2))
    assert forbidden(both, torch.empty(1, 0, dtype=torch.long)) == [2]
    assert forbidden(both, torch.tensor([[3, 5]])) == [3, 5]
    assert forbidden(combine(), torch.tensor([[3]])) == []
