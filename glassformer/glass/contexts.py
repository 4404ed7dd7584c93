"""The same word in several texts: how far apart the vectors are that its contexts gave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.glass.views import pad, width


@dataclass(frozen=True)
class InContext:
    """The words of a text, and the vectors of each, by the name of what made them."""

    words: list[str]
    vectors: dict[str, Tensor]  # W×D each: "embedding", "layer 1 →" (read from the left), "layer 1 ←" …

    def mean(self) -> Tensor:
        """Over the layers, both directions side by side, W×2D; the embedding is the lowest layer of both."""
        embedding, *states = self.vectors.values()
        both = [torch.cat([there, back], dim=1) for there, back in zip(states[::2], states[1::2], strict=True)]
        return torch.stack([embedding.repeat(1, 2), *both]).mean(dim=0)


class Place(NamedTuple):
    """A word of a text, both counted from 1."""

    text: int
    word: int


class Compared(NamedTuple):
    """A word at two places: 1 − cos of its two vectors, for each that it has."""

    word: str
    one: Place
    other: Place
    distances: dict[str, float]


def compare(texts: Sequence[InContext], word: str | None = None) -> list[Compared]:
    """Every word at any two of its places, whether it is written with a capital letter or not; or one word only."""
    places: dict[str, list[Place]] = {}
    for number, text in enumerate(texts, 1):
        for at, written in enumerate(text.words, 1):
            if any(map(str.isalnum, written)) and (word is None or written.lower() == word.lower()):
                places.setdefault(written.lower(), []).append(Place(number, at))
    return [
        Compared(written, one, other, _distances(texts, one, other))
        for written, found in places.items()
        for one, other in combinations(found, 2)
    ]


def _distances(texts: Sequence[InContext], one: Place, other: Place) -> dict[str, float]:
    here, there = texts[one.text - 1].vectors, texts[other.text - 1].vectors
    cosines = {
        name: F.cosine_similarity(here[name][one.word - 1], there[name][other.word - 1], dim=0, eps=1e-12)
        for name in here
    }
    return {name: max(0.0, 1 - float(cosine)) for name, cosine in cosines.items()}


def table(compared: Sequence[Compared]) -> list[str]:
    """A line for each."""
    names = list(compared[0].distances)
    said = [f"{row.word}  {_place(row.one)} and {_place(row.other)}" for row in compared]
    column = max(map(width, [*said, "word"]))
    lines = [pad("word", column) + "".join(f"  {name:>9}" for name in names)]
    for words, row in zip(said, compared, strict=True):
        lines.append(pad(words, column) + "".join(f"  {row.distances[name]:9.3f}" for name in names))
    return lines


def _place(place: Place) -> str:
    return f"{place.text}:{place.word}"
