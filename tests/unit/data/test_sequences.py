"""Sequences of running text: targets, order, and resuming."""

from __future__ import annotations

from itertools import chain, islice, pairwise

import numpy as np
import torch

from glassformer.data.batching import BEGINNING, Position
from glassformer.data.sequences import SequenceBatches
from glassformer.text.tokenizer import PAD

BEFORE = 2


def stream(*lengths: int, sequence: int = 5, batch_tokens: int = 15) -> SequenceBatches:
    """Return documents of these lengths; the tokens of all documents are 100, 101 …"""
    starts = np.cumsum([0, *lengths])
    documents = [np.arange(100 + a, 100 + b) for a, b in pairwise(starts)]
    return SequenceBatches(documents, before=BEFORE, sequence=sequence, batch_tokens=batch_tokens)


def test_every_token_is_predicted_once_from_the_one_before() -> None:
    batches = stream(23)
    seen: list[int] = []
    for rows in batches.in_order():
        batch = batches.batch(rows)
        real_BT = batch.next_BT != PAD
        before_N, next_N = batch.tokens_BT[real_BT], batch.next_BT[real_BT]
        assert torch.equal(before_N, torch.where(next_N == 100, BEFORE, next_N - 1))
        seen += next_N.tolist()
    assert seen == list(range(100, 123))


def test_sequences_do_not_cross_documents() -> None:
    batches = stream(7, 4)
    tokens = [batches.batch([row]).tokens_BT[0].tolist() for row in range(len(batches))]
    assert tokens == [[BEFORE, 100, 101, 102, 103], [104, 105], [BEFORE, 107, 108, 109]]
    assert [batches.first_token(row) for row in range(3)] == [0, 5, 7]


def test_the_order_depends_on_seed_and_epoch() -> None:
    batches = stream(311)
    flat = [list(chain(*batches.epoch(seed, epoch))) for seed, epoch in ((1, 0), (1, 0), (1, 1), (2, 0))]
    assert flat[0] == flat[1]
    assert flat[0] != flat[2] and flat[0] != flat[3]
    assert all(sorted(rows) == list(range(63)) for rows in flat)


def test_batches_can_be_resumed_from_any_position() -> None:
    batches = stream(97)
    whole = list(islice(batches.forever(3, BEGINNING), 18))
    assert whole[6].next == Position(1, 0)
    for at in (0, 4, 6, 11):
        rest = list(islice(batches.forever(3, whole[at].next), 18 - at - 1))
        assert [batch.rows for batch in rest] == [batch.rows for batch in whole[at + 1 :]]


def test_a_batch_fills_its_token_budget() -> None:
    assert {len(rows) for rows in stream(300, sequence=7, batch_tokens=30).in_order()} <= {4, 3, 2, 1}
    assert [len(rows) for rows in stream(12, sequence=5, batch_tokens=2).in_order()] == [1, 1, 1]
