"""Comparison of a word's contextual vectors in different texts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import torch.nn.functional as F

from glassformer.glass.heatmap import pad_text, text_width
from glassformer.inference.embeddings import ContextualVectors


class WordPosition(NamedTuple):
    """A word of a text; both are counted from 1."""

    text: int
    word: int

    def __str__(self) -> str:
        return f"{self.text}:{self.word}"


class WordComparison(NamedTuple):
    """A word at two positions, and the cosine distance of its vectors in each layer."""

    word: str
    one: WordPosition
    other: WordPosition
    distances: dict[str, float]


def compare_words(texts: Sequence[ContextualVectors], word: str | None = None) -> list[WordComparison]:
    """Compare every word, or one word, at every pair of its positions. Upper and lower case are the same word."""
    positions: dict[str, list[WordPosition]] = {}
    for number, text in enumerate(texts, 1):
        for at, written in enumerate(text.words, 1):
            if any(map(str.isalnum, written)) and (word is None or written.lower() == word.lower()):
                positions.setdefault(written.lower(), []).append(WordPosition(number, at))
    return [
        WordComparison(written, one, other, _distances(texts, one, other))
        for written, found in positions.items()
        for one, other in combinations(found, 2)
    ]


def _distances(texts: Sequence[ContextualVectors], one: WordPosition, other: WordPosition) -> dict[str, float]:
    a, b = texts[one.text - 1].vectors, texts[other.text - 1].vectors
    cosines = {
        name: F.cosine_similarity(a[name][one.word - 1], b[name][other.word - 1], dim=0, eps=1e-12) for name in a
    }
    return {name: max(0.0, 1 - float(cosine)) for name, cosine in cosines.items()}


def comparison_table(comparisons: Sequence[WordComparison]) -> list[str]:
    """Return the lines of a table, one line per comparison."""
    names = list(comparisons[0].distances)
    labels = [f"{row.word}  {row.one} and {row.other}" for row in comparisons]
    column = max(map(text_width, [*labels, "word"]))
    lines = [pad_text("word", column) + "".join(f"  {name:>9}" for name in names)]
    for label, row in zip(labels, comparisons, strict=True):
        lines.append(pad_text(label, column) + "".join(f"  {row.distances[name]:9.3f}" for name in names))
    return lines
