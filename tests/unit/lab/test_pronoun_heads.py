"""Pronoun resolution by attention heads."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.glass.head_accuracy import NounPairCase, head_accuracies
from glassformer.lab.pronoun_heads import TIRED, WIDE, questions_of
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.phrasebook.corpus import Phrasebook, phrasebook
from glassformer.text.tokenizer import EOS, PAD, Tokenizer


@pytest.fixture(scope="module")
def book() -> Phrasebook:
    return phrasebook(size=300)


@pytest.fixture(scope="module", params=[340, 1000])
def tokenizer(book: Phrasebook, request: pytest.FixtureRequest) -> Tokenizer:
    """A tokenizer that splits most words, and one that splits few."""
    return Tokenizer.train_bpe([triple.english for triple in book.train], vocab=request.param)


def spelled(question: NounPairCase, places: list[int], tokenizer: Tokenizer) -> str:
    return tokenizer.decode([question.tokens[place] for place in places])


def test_the_phrasebook_says_which_noun_is_meant(book: Phrasebook) -> None:
    meant = {triple.english: (triple.meant, triple.other) for triple in book.test}
    assert meant[TIRED] == ("animal", "street")
    assert meant[WIDE] == ("street", "animal")
    for triple in [*book.train, *book.test]:
        words = re.findall(r"[\w']+", triple.english.lower())
        assert triple.pronoun == bool(triple.meant) == bool(triple.other)
        if triple.pronoun:
            because = words.index("because")
            said = words[because:] if because == 0 else words[:because]
            assert triple.meant.lower() in said and triple.other.lower() in said


def test_the_tokens_of_the_pronoun_and_of_both_nouns_are_found(book: Phrasebook, tokenizer: Tokenizer) -> None:
    triples = [triple for triple in book.test if triple.pronoun and not triple.english.startswith("Because")]
    assert 0 < len(triples) < sum(triple.pronoun for triple in book.test)
    asked = questions_of(book.test, tokenizer)
    assert len(asked) == len(triples)
    for question, triple in zip(asked, triples, strict=True):
        assert spelled(question, question.correct, tokenizer).lower() == triple.meant.lower()
        assert spelled(question, question.other, tokenizer).lower() == triple.other.lower()
        assert tokenizer.pieces(question.tokens)[question.query].lstrip("▁") in ("it", "they", "t", "y", "ey", "hey")
        assert question.correct_first == (triple.english.index(triple.meant) < triple.english.index(triple.other))
        assert question.tokens[-1] == EOS


class Looking(torch.nn.Module):
    """An encoder with two heads: one attends two tokens back, the other to the first token."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing = torch.nn.Parameter(torch.zeros(1))

    def encode(self, source_BS: Tensor, probe: Probe = NO_PROBE) -> None:
        B, S = source_BS.shape
        weights_BHQK = torch.full((B, 2, S, S), 0.01)
        for q in range(S):
            weights_BHQK[:, 0, q, max(0, q - 2)] = 1
            weights_BHQK[:, 1, q, 0] = 1
        probe.at("encoder", 0, "self")("weights", weights_BHQK)


def test_a_head_is_right_if_it_attends_more_to_the_correct_noun() -> None:
    first = NounPairCase([5, 6, 7, 8, EOS], query=3, correct=[0], other=[1], correct_first=True)
    second = NounPairCase([5, 6, 7, EOS], query=3, correct=[1], other=[0], correct_first=False)
    model: Any = Looking()
    two_back, at_first = head_accuracies(model, [first, second, first], PAD)
    assert (two_back.first, two_back.second, two_back.accuracy) == (0.0, 1.0, 0.5)
    assert (at_first.first, at_first.second, at_first.accuracy) == (1.0, 0.0, 0.5)
    assert (at_first.layer, at_first.head) == (0, 1)
    (right, _) = head_accuracies(model, [second, NounPairCase([5, 6, 7, EOS], 2, [0], [1], True)], PAD)
    assert right.accuracy == 1
