"""Distances between the vectors of a word in several contexts."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.glass.word_in_context import WordPosition, compare_words, comparison_table
from glassformer.inference.embeddings import ContextualVectors

HERE = ContextualVectors(
    ["The", "bank", "."], {"embedding": torch.eye(3), "layer 1 →": torch.tensor([[1.0, 0], [1, 1], [0, 1]])}
)
THERE = ContextualVectors(
    ["A", "bank", "the"], {"embedding": torch.eye(3), "layer 1 →": torch.tensor([[0.0, 1], [2, 0], [0, 3]])}
)


def test_distances_are_one_less_the_cosine() -> None:
    the, bank = compare_words([HERE, THERE])
    assert (the.word, the.one, the.other) == ("the", WordPosition(1, 1), WordPosition(2, 3))
    assert the.distances == pytest.approx({"embedding": 1.0, "layer 1 →": 1.0})
    assert (bank.word, bank.one, bank.other) == ("bank", WordPosition(1, 2), WordPosition(2, 2))
    assert bank.distances == pytest.approx({"embedding": 0.0, "layer 1 →": 1 - math.sqrt(0.5)}, abs=1e-6)


def test_every_pair_of_positions_of_a_word() -> None:
    pairs = compare_words([HERE, THERE, HERE], "BANK")
    assert [(pair.one, pair.other) for pair in pairs] == [((1, 2), (2, 2)), ((1, 2), (3, 2)), ((2, 2), (3, 2))]
    assert compare_words([HERE, THERE], "river") == []


def test_comparison_table() -> None:
    header, the, bank = comparison_table(compare_words([HERE, THERE]))
    assert header.split() == ["word", "embedding", "layer", "1", "→"]
    assert the.split() == ["the", "1:1", "and", "2:3", "1.000", "1.000"]
    assert bank.split() == ["bank", "1:2", "and", "2:2", "0.000", "0.293"]
    assert len({len(line) for line in (header, the, bank)}) == 1
