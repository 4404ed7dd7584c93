"""Constraints forbid exactly what they say."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from glassformer.decoding.constraints import all_of, no_repeated, not_empty

V = 7


def forbidden(mask_NV: Tensor | None, row: int = 0) -> list[int]:
    return [] if mask_NV is None else mask_NV[row].nonzero()[:, 0].tolist()


@pytest.mark.parametrize(
    ("n", "output", "expected"),
    [
        (1, [3, 5, 3], [3, 5]),
        (2, [3, 5, 3], [5]),  # "3 5" stands there already
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
def test_no_repeated(n: int, output: list[int], expected: list[int]) -> None:
    assert forbidden(no_repeated(n)(torch.tensor([output]), V)) == expected


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_repeated_forbids_what_would_repeat_and_only_that(n: int) -> None:
    for output in itertools.product(range(3), repeat=5):
        before = [output[i : i + n] for i in range(5 - n + 1)]
        would = [token for token in range(V) if (*output, token)[5 - n + 1 :] in before]
        assert forbidden(no_repeated(n)(torch.tensor([output]), V)) == would


def test_each_row_is_judged_by_itself() -> None:
    mask = no_repeated(2)(torch.tensor([[3, 5, 3], [4, 4, 6], [6, 1, 6]]), V)
    assert mask is not None
    assert mask.shape == (3, V)
    assert [forbidden(mask, row) for row in range(3)] == [[5], [], [1]]


def test_not_empty_forbids_the_end_as_the_first_token() -> None:
    mask = not_empty(2)(torch.empty(3, 0, dtype=torch.long), V)
    assert [forbidden(mask, row) for row in range(3)] == [[2], [2], [2]]
    assert forbidden(not_empty(2)(torch.tensor([[4]]), V)) == []


def test_all_of_forbids_what_any_forbids() -> None:
    both = all_of(no_repeated(1), not_empty(2), no_repeated(2))
    assert forbidden(both(torch.empty(1, 0, dtype=torch.long), V)) == [2]
    assert forbidden(both(torch.tensor([[3, 5]]), V)) == [3, 5]
    assert all_of(no_repeated(3), not_empty(2))(torch.tensor([[3]]), V) is None
    assert all_of()(torch.tensor([[3]]), V) is None
