"""Which encoder heads resolve pronouns: attention of "it" in the sentences of the phrasebook.

"The animal didn't cross the street because it was too tired": a head is correct if the attention weight from "it" to
*animal* is larger than to *street*. With "too wide" it is the reverse, so a head that always prefers the same noun has
an accuracy of 50 %, which is chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.errors import UserError
from glassformer.glass.head_accuracy import HeadAccuracy, NounPairCase, head_accuracies
from glassformer.inference.translator import Translator
from glassformer.phrasebook.corpus import Triple, phrasebook
from glassformer.text.lines import WORD_MARK
from glassformer.text.tokenizer import EOS, PAD, Tokenizer

PRONOUNS = ("it", "they")
TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."


@dataclass(frozen=True)
class RankedHead:
    """A head with its accuracy on the validation split, which ranks it, and on the test split, which is reported."""

    layer: int
    head: int
    valid: HeadAccuracy
    test: HeadAccuracy
    tired_and_wide: bool  # correct for both sentences TIRED and WIDE


@dataclass(frozen=True)
class Ranking:
    """Heads, the best first, and the number of validation and test sentences."""

    heads: list[RankedHead]
    num_valid: int
    num_test: int


def rank_heads(translator: Translator) -> Ranking:
    """Rank the encoder heads by their accuracy on the validation split and evaluate them on the test split.

    The accuracy on the validation split is biased upwards, as the best of many heads is selected there.
    """
    book = phrasebook()
    tokenizer = translator.tokenizer
    valid, test = (questions_of(triples, tokenizer) for triples in (book.valid, book.test))
    pair = questions_of([triple for triple in book.test if triple.english in (TIRED, WIDE)], tokenizer)
    if not any(name.startswith("encoder.") for name in _attentions(translator)):
        raise UserError("The encoder of this model has no attention.", hint="choose a Transformer")
    on_valid, on_test, on_pair = (head_accuracies(translator.model, asked, PAD) for asked in (valid, test, pair))
    ranked = [
        RankedHead(one.layer, one.head, one, other, classic.accuracy == 1)
        for one, other, classic in zip(on_valid, on_test, on_pair, strict=True)
    ]
    return Ranking(sorted(ranked, key=lambda head: -head.valid.accuracy), len(valid), len(test))


def _attentions(translator: Translator) -> list[str]:
    return [layer.name for layer in translator.trace(TIRED, "").attention_layers]


def questions_of(triples: Sequence[Triple], tokenizer: Tokenizer) -> list[NounPairCase]:
    """Return the sentences in which the pronoun follows both nouns and all three words are found."""
    return [question for triple in triples if triple.pronoun and (question := _question(triple, tokenizer)) is not None]


def _question(triple: Triple, tokenizer: Tokenizer) -> NounPairCase | None:
    ids = tokenizer.encode(triple.english)
    words = _words(tokenizer.pieces(ids))
    because = next((place for place, (word, _) in enumerate(words) if word == "because"), None)
    if because is None or words[because + 1][0] not in PRONOUNS:
        return None
    before = dict(words[:because])  # of a repeated word, the last occurrence
    meant, other = before.get(triple.meant.lower()), before.get(triple.other.lower())
    if meant is None or other is None:
        return None
    return NounPairCase([*ids, EOS], words[because + 1][1][-1], meant, other, correct_first=meant < other)


def _words(pieces: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return each word in lower case without punctuation, and the positions of its tokens."""
    words: list[tuple[str, list[int]]] = []
    for place, piece in enumerate(pieces):
        if piece.startswith(WORD_MARK) or not words:
            words.append(("", []))
        text, places = words[-1]
        letters = piece.removeprefix(WORD_MARK).lower()
        words[-1] = (text + letters, [*places, place]) if letters.isalnum() else (text, places)
    return words
