"""Batches: every pair once per epoch, within the token budget, in an order that can be resumed anywhere."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice

import numpy as np
import plain_filtering as plain
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.batching import BEGINNING, CorpusWeight, PairBatches, Position, pad_rows
from glassformer.data.store import EncodedPairs
from glassformer.text.tokenizer import EOS, PAD, SOS


def pairs(count: int, seed: int = 1) -> list[tuple[list[int], list[int]]]:
    dice = random.Random(seed)
    return [([7] * dice.randint(1, 29), [11] * dice.randint(1, 31)) for _ in range(count)]


lengths = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=200)


@given(lengths, st.integers(64, 500), st.integers(0, 5), st.integers(0, 3))
def test_an_epoch_has_every_pair_once_within_the_token_budget(
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
def test_batches_can_be_resumed_from_any_position(skipped: int) -> None:
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
    assert (batch.target_out_BT != PAD).sum() == 6


def test_padding_goes_to_the_end() -> None:
    assert pad_rows([[1], [2, 3]]).tolist() == [[1, PAD], [2, 3]]


@given(lengths, st.integers(3, 500), st.integers(0, 5), st.integers(0, 3))
def test_batches_are_cut_as_by_the_plain_rules(
    sizes: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    batches = PairBatches([([5] * s, [6] * t) for s, t in sizes], budget)
    assert list(batches.epoch(seed, epoch)) == plain.epoch(sizes, budget, seed, epoch)
    assert sorted(row for rows in batches.in_order() for row in rows) == list(range(len(sizes)))


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_a_large_corpus_is_cut_as_by_the_plain_rules(dtype: type) -> None:
    dice = np.random.default_rng(3)
    source, target = dice.integers(1, 60, 5_000).astype(dtype), dice.integers(1, 70, 5_000).astype(dtype)
    sizes = list(zip(source.tolist(), target.tolist(), strict=True))
    ids = EncodedPairs(np.zeros(0), np.zeros(5_000, dtype=np.uint64), source, target)
    assert list(PairBatches(ids, 1024).epoch(7, 2)) == plain.epoch(sizes, 1024, 7, 2)


def test_batches_hold_the_ids_of_their_rows() -> None:
    dice = random.Random(1)
    some = [tuple([dice.randint(3, 99) for _ in range(dice.randint(0, 9))] for _ in range(2)) for _ in range(50)]
    batches = PairBatches(some, 64)
    for rows in batches.in_order():
        batch = batches.batch(rows)
        assert torch.equal(batch.source_BS, pad_rows([[*some[row][0], EOS] for row in rows]))
        assert torch.equal(batch.target_in_BT, pad_rows([[SOS, *some[row][1]] for row in rows]))
        assert torch.equal(batch.target_out_BT, pad_rows([[*some[row][1], EOS] for row in rows]))


class TestWeights:
    shares = (CorpusWeight(30), CorpusWeight(40, 2.25), CorpusWeight(50, 0.5))

    def seen(self, seed: int, epoch: int) -> Counter[int]:
        batches = PairBatches(pairs(120), 256, weights=self.shares)
        return Counter(row for rows in batches.epoch(seed, epoch) for row in rows)

    def test_a_pair_occurs_as_often_as_its_weight(self) -> None:
        for epoch in range(5):
            seen = self.seen(1, epoch)
            assert {seen[row] for row in range(30)} == {1}
            assert {seen[row] for row in range(30, 70)} == {2, 3}
            assert {seen[row] for row in range(70, 120)} == {0, 1}
        total = sum((self.seen(1, epoch) for epoch in range(400)), Counter())
        assert all(abs(total[row] / 400 - 2.25) < 0.1 for row in range(30, 70))
        assert all(abs(total[row] / 400 - 0.5) < 0.11 for row in range(70, 120))

    def test_weighted_rows_depend_on_seed_and_epoch(self) -> None:
        assert self.seen(1, 0) == self.seen(1, 0)
        assert self.seen(1, 0) != self.seen(1, 1)
        assert self.seen(1, 0) != self.seen(2, 0)

    def test_weighted_batches_can_be_resumed_within_an_epoch(self) -> None:
        batches = PairBatches(pairs(120), 256, weights=self.shares)
        whole = list(islice(batches.forever(5, BEGINNING), 40))
        for skipped in (1, 9, 25):
            taken_up = islice(batches.forever(5, whole[skipped - 1].next), 40 - skipped)
            assert [batch.rows for batch in taken_up] == [batch.rows for batch in whole[skipped:]]

    def test_weights_of_one_change_nothing(self) -> None:
        plainly, weighted = (
            PairBatches(pairs(90), 256),
            PairBatches(pairs(90), 256, weights=[CorpusWeight(40), CorpusWeight(50, 1.0)]),
        )
        assert list(plainly.epoch(3, 1)) == list(weighted.epoch(3, 1))
