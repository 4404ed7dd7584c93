"""Masks hide exactly the right positions."""

from __future__ import annotations

import math

import torch

from glassformer.nn.masks import look_ahead_mask, padding_mask, self_only_mask


def test_padding_is_hidden_from_every_query() -> None:
    tokens_BS = torch.tensor([[5, 7, 9], [5, 0, 0]])
    mask = padding_mask(tokens_BS, pad=0)
    assert mask is not None
    assert mask.values.shape == (2, 1, 1, 3)
    assert mask.values[:, 0, 0].tolist() == [[0, 0, 0], [0, -math.inf, -math.inf]]


def test_padding_mask_uses_the_given_padding_id() -> None:
    mask = padding_mask(torch.tensor([[0, 7, 9]]), pad=9)
    assert mask is not None
    assert mask.values.flatten().tolist() == [0, 0, -math.inf]


def test_without_padding_there_is_no_mask() -> None:
    assert padding_mask(torch.tensor([[5, 7], [9, 5]]), pad=0) is None


def test_look_ahead_mask_hides_later_positions() -> None:
    mask_TT = look_ahead_mask(7).values
    for query in range(7):
        for key in range(7):
            assert mask_TT[query, key].item() == (0 if key <= query else -math.inf)


def test_self_only_mask() -> None:
    mask = self_only_mask(3)
    assert mask.tolist() == [[0 if i == j else -math.inf for j in range(3)] for i in range(3)]


def test_select_takes_rows_of_a_mask_and_keeps_its_operation() -> None:
    mask = padding_mask(torch.tensor([[5, 0], [5, 7], [0, 0]]), pad=0)
    assert mask is not None
    chosen = mask.select(torch.tensor([2, 0]))
    assert torch.equal(chosen.values, mask.values[[2, 0]])
    assert chosen.operation is mask.operation
