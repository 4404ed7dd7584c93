"""Data diversification (Nguyen et al., 2020): more training pairs from translations of the training text itself.

A forward run translates the sources, and a backward run the targets. Each translation, paired with the line that it
was made from, is a new training pair: the same content in other words, without additional text. With an ensemble as
the forward run, this is sequence-level distillation (Kim and Rush, 2016): one model learns the ensemble's outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from glassformer.files import write_text
from glassformer.inference.translator import Translator
from glassformer.inference.workers import translate_stream

Pair = tuple[str, str]
NUL = "\0"  # a model that has hardly learned may write it in bytes; a text file must not contain it


def diversify(
    pairs: Sequence[Pair], forward: Sequence[Translator], backward: Sequence[Translator], *, workers: int
) -> Iterator[Pair]:
    """Yield the new pairs of every translator."""
    directions = [*((translator, True) for translator in forward), *((translator, False) for translator in backward)]
    every = (translate_pairs(pairs, translator, is_forward=side, workers=workers) for translator, side in directions)
    return new_pairs(pairs, chain.from_iterable(every))


def translate_pairs(pairs: Sequence[Pair], translator: Translator, *, is_forward: bool, workers: int) -> Iterator[Pair]:
    """Yield each source with its translation or, not `is_forward`, the translation of each target with the target.

    A translation that is no text is empty.
    """
    lines = [pair[0 if is_forward else 1] for pair in pairs]
    for line, translation in zip(lines, translate_stream(translator, lines, workers=workers), strict=True):
        text = "" if NUL in translation.text else translation.text
        yield (line, text) if is_forward else (text, line)


def new_pairs(pairs: Iterable[Pair], translated: Iterable[Pair]) -> Iterator[Pair]:
    """Yield the translated pairs that do not exist already and have two sides."""
    known = set(pairs)
    for pair in translated:
        if all(pair) and pair not in known:
            known.add(pair)
            yield pair


def write_pairs(paths: Sequence[Path], pairs: Iterable[Pair]) -> None:
    """Write the two sides of the pairs to two aligned files."""
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        write_text(path, "".join(f"{line}\n" for line in side))
