"""Where "it" looks: the phrasebook's sentences with a pronoun, as questions to the heads of an encoder.

"The animal didn't cross the street because it was too tired": a head answers rightly if "it" looks more at *animal*
than at *street*. With "too wide" it must be the other way round, so a head that always prefers the same noun is right
half of the time, as chance is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.errors import UserError
from glassformer.glass.heads import HeadAccuracy, NounPairCase, head_accuracies
from glassformer.inference.translator import Translator
from glassformer.phrasebook.corpus import Triple, phrasebook
from glassformer.text.lines import WORD_MARK
from glassformer.text.tokenizer import EOS, PAD, Tokenizer

PRONOUNS = ("it", "they")
TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."


@dataclass(frozen=True)
class Ranked:
    """A head: chosen by `chosen_by`, judged by `judged_by`, which had no part in the choice."""

    layer: int
    head: int
    chosen_by: HeadAccuracy  # on the validation split
    judged_by: HeadAccuracy  # on the test split
    tired_and_wide: bool  # looks at the animal when tired, and at the street when wide


@dataclass(frozen=True)
class Ranking:
    heads: list[Ranked]
    choosing: int  # sentences
    judging: int


def rank_heads(translator: Translator) -> Ranking:
    """The encoder's heads, the best first by the phrasebook's validation split, and how they do on its test split.

    A head that was chosen among many because it did well looks better than it is where it was chosen.
    """
    book = phrasebook()
    tokenizer = translator.tokenizer
    valid, test = (questions_of(triples, tokenizer) for triples in (book.valid, book.test))
    pair = questions_of([triple for triple in book.test if triple.english in (TIRED, WIDE)], tokenizer)
    if not any(name.startswith("encoder.") for name in _attentions(translator)):
        raise UserError("This model's encoder has no attention to look at.", hint="take a Transformer")
    chosen, judged, both = (head_accuracies(translator.model, asked, PAD) for asked in (valid, test, pair))
    ranked = [
        Ranked(one.layer, one.head, one, other, classic.accuracy == 1)
        for one, other, classic in zip(chosen, judged, both, strict=True)
    ]
    return Ranking(sorted(ranked, key=lambda head: -head.chosen_by.accuracy), len(valid), len(test))


def _attentions(translator: Translator) -> list[str]:
    return [layer.name for layer in translator.trace(TIRED, "").attention_layers]


def questions_of(triples: Sequence[Triple], tokenizer: Tokenizer) -> list[NounPairCase]:
    """The sentences whose pronoun comes after both nouns, if all three are found among the tokens."""
    return [question for triple in triples if triple.pronoun and (question := _question(triple, tokenizer)) is not None]


def _question(triple: Triple, tokenizer: Tokenizer) -> NounPairCase | None:
    ids = tokenizer.encode(triple.english)
    words = _words(tokenizer.pieces(ids))
    because = next((place for place, (word, _) in enumerate(words) if word == "because"), None)
    if because is None or words[because + 1][0] not in PRONOUNS:
        return None
    before = dict(words[:because])  # of a word that comes twice, the last
    meant, other = before.get(triple.meant.lower()), before.get(triple.other.lower())
    if meant is None or other is None:
        return None
    return NounPairCase([*ids, EOS], words[because + 1][1][-1], meant, other, correct_first=meant < other)


def _words(pieces: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Each word in small letters, without punctuation, and where its pieces stand."""
    words: list[tuple[str, list[int]]] = []
    for place, piece in enumerate(pieces):
        if piece.startswith(WORD_MARK) or not words:
            words.append(("", []))
        text, places = words[-1]
        letters = piece.removeprefix(WORD_MARK).lower()
        words[-1] = (text + letters, [*places, place]) if letters.isalnum() else (text, places)
    return words
