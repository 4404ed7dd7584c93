"""Batches: every pair once an epoch, within the budget, in an order that can be taken up anywhere."""

from __future__ import annotations

import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.batching import BEGINNING, PairBatches, Position, pad_rows
from glassformer.text.tokenizer import EOS, PAD, SOS


def pairs(count: int, seed: int = 1) -> list[tuple[list[int], list[int]]]:
    dice = random.Random(seed)
    return [([7] * dice.randint(1, 29), [11] * dice.randint(1, 31)) for _ in range(count)]


lengths = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=200)


@given(lengths, st.integers(64, 500), st.integers(0, 5), st.integers(0, 3))
def test_every_pair_once_an_epoch_within_the_budget(
    sizes: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    batches = PairBatches([([5] * s, [6] * t) for s, t in sizes], budget)
    cut = batches.epoch(seed, epoch)
    assert sorted(row for rows in cut for row in rows) == list(range(len(sizes)))
    for rows in cut:
        widest = max(max(sizes[row]) + 1 for row in rows)
        assert len(rows) * widest <= budget or len(rows) == 1


def test_order_is_fixed_by_the_seed_and_differs_between_epochs() -> None:
    batches = PairBatches(pairs(997), 256)
    assert list(batches.epoch(3, 2)) == list(batches.epoch(3, 2))
    assert list(batches.epoch(3, 2)) != list(batches.epoch(3, 3))
    assert list(batches.epoch(3, 2)) != list(batches.epoch(4, 2))


@pytest.mark.parametrize("skipped", [0, 1, 7, 60, 200])
def test_reading_can_be_taken_up_anywhere(skipped: int) -> None:
    batches = PairBatches(pairs(499), 256)
    whole = [batch for batch, _ in zip(batches.forever(5, BEGINNING), range(skipped + 40), strict=False)]
    position = whole[skipped - 1].next if skipped else BEGINNING
    taken_up = islice(batches.forever(5, position), 40)
    assert [batch.rows for batch in taken_up] == [batch.rows for batch in whole[skipped:]]


def test_positions_count_epochs() -> None:
    batches = PairBatches(pairs(50), 256)
    in_epoch = len(batches.epoch(1, 0))
    assert next(islice(batches.forever(1, BEGINNING), in_epoch - 1, None)).next == Position(1, 0)


def test_most_batches_need_no_source_padding() -> None:
    batches = PairBatches(pairs(20_000), 2048)
    cut = batches.epoch(1, 0)
    unpadded = [rows for rows in cut if len({len(batches.pairs[row][0]) for row in rows}) == 1]
    assert len(unpadded) > 0.9 * len(cut)


def test_teacher_forcing_shifts_the_target_by_one() -> None:
    je, vais, bien = 5, 6, 7
    batch = PairBatches([([3, 4], [je, vais, bien]), ([3], [je])], 64).batch([0, 1])
    assert batch.target_in_BT.tolist() == [[SOS, je, vais, bien], [SOS, je, PAD, PAD]]
    assert batch.target_out_BT.tolist() == [[je, vais, bien, EOS], [je, EOS, PAD, PAD]]
    assert batch.source_BS.tolist() == [[3, 4, EOS], [3, EOS, PAD]]
    assert batch.target_tokens == 6


def test_padding_goes_to_the_end() -> None:
    assert pad_rows([[1], [2, 3]]).tolist() == [[1, PAD], [2, 3]]
