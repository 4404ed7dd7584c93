"""The lexicon of IBM Model 1."""

from __future__ import annotations

import random

import pytest

from glassformer.data import lexicon as lexicons
from glassformer.data.lexicon import frequent_targets, learn_lexicon
from glassformer.data.store import EncodedPairs

WORDS = range(10, 41)


def dictionary_pairs(count: int) -> EncodedPairs:
    """Sentences whose target is the source, word by word plus 100, in another order, and a 7 in every target."""
    rng = random.Random(1)
    pairs = []
    for _ in range(count):
        source = rng.sample(WORDS, rng.randint(1, 7))
        target = [word + 100 for word in source] + [7]
        rng.shuffle(target)
        pairs.append((source, target))
    return EncodedPairs.from_lists([([], [7]), *pairs, ([11], [])])


def test_the_first_candidate_is_the_translation() -> None:
    lexicon = learn_lexicon(dictionary_pairs(600), candidates=3)
    assert {word: targets[0] for word, targets in lexicon.items()} == {word: word + 100 for word in WORDS}
    assert all(len(targets) == 3 for targets in lexicon.values())


def test_frequent_targets_come_first() -> None:
    found = frequent_targets(dictionary_pairs(300), most=4)
    assert found[0] == 7 and len(found) == 4


def test_combinations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair that is too large does not exclude smaller ones."""
    large = (list(WORDS) * 7, [word + 100 for word in WORDS] * 7)
    small = [([word], [word + 100]) for word in WORDS] * 5
    pairs = EncodedPairs.from_lists([large, *small, large])
    assert len(learn_lexicon(pairs, candidates=3)[10]) == 3
    monkeypatch.setattr(lexicons, "MAX_COMBINATIONS", 120)
    rows = lexicons._rows(pairs)
    assert len(rows) == 120 and (pairs.source_lengths[rows] == 1).all()
    assert learn_lexicon(pairs, candidates=3) == {word: [word + 100] for word in WORDS}
    monkeypatch.setattr(lexicons, "MAX_COMBINATIONS", 0)
    assert learn_lexicon(pairs, candidates=3) == {} and frequent_targets(pairs, most=5) == []


def test_frequent_targets_are_counted_in_the_rows_of_the_lexicon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicons, "MAX_PAIRS", 100)
    pairs = EncodedPairs.from_lists([([11], [12])] * 300 + [([13], [14])] * 700)
    assert set(learn_lexicon(pairs, candidates=3)) == {11, 13}
    assert frequent_targets(pairs, most=5) == [14, 12]
