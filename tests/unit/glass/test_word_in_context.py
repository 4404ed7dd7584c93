"""Distances between the vectors of a word in several contexts."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.glass.word_in_context import InContext, Place, compare, table

HERE = InContext(
    ["The", "bank", "."], {"embedding": torch.eye(3), "layer 1 →": torch.tensor([[1.0, 0], [1, 1], [0, 1]])}
)
THERE = InContext(
    ["A", "bank", "the"], {"embedding": torch.eye(3), "layer 1 →": torch.tensor([[0.0, 1], [2, 0], [0, 3]])}
)


def test_distances_are_one_less_the_cosine() -> None:
    the, bank = compare([HERE, THERE])
    assert (the.word, the.one, the.other) == ("the", Place(1, 1), Place(2, 3))
    assert the.distances == pytest.approx({"embedding": 1.0, "layer 1 →": 1.0})
    assert (bank.word, bank.one, bank.other) == ("bank", Place(1, 2), Place(2, 2))
    assert bank.distances == pytest.approx({"embedding": 0.0, "layer 1 →": 1 - math.sqrt(0.5)}, abs=1e-6)


def test_every_two_places_of_one_word() -> None:
    pairs = compare([HERE, THERE, HERE], "BANK")
    assert [(pair.one, pair.other) for pair in pairs] == [((1, 2), (2, 2)), ((1, 2), (3, 2)), ((2, 2), (3, 2))]
    assert compare([HERE, THERE], "river") == []


def test_a_table_of_them() -> None:
    header, the, bank = table(compare([HERE, THERE]))
    assert header.split() == ["word", "embedding", "layer", "1", "→"]
    assert the.split() == ["the", "1:1", "and", "2:3", "1.000", "1.000"]
    assert bank.split() == ["bank", "1:2", "and", "2:2", "0.000", "0.293"]
    assert len({len(line) for line in (header, the, bank)}) == 1
