"""The lexicon of IBM Model 1."""

from __future__ import annotations

import random

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
