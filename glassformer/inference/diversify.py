"""Data diversification (Nguyen et al., 2020): more training pairs from translations of the training text itself.

A forward run translates the sources, and a backward run the targets. Each translation, paired with the line that it
was made from, is a new training pair: the same content in other words, without additional text. With an ensemble as
the forward run, this is sequence-level distillation (Kim and Rush, 2016): one model learns the ensemble's outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from glassformer.inference.translator import Translator
from glassformer.inference.workers import translate_stream

Pair = tuple[str, str]
NUL = "\0"  # a model that has hardly learned may write it in bytes; a text file must not contain it


def diversify(
    pairs: Sequence[Pair], forward: Sequence[Translator], backward: Sequence[Translator], *, workers: int
) -> Iterator[Pair]:
    """Yield the new pairs of every translator, without translations that are no text and pairs that exist already."""
    known = set(pairs)
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    for translator, lines, is_forward in (
        *((translator, sources, True) for translator in forward),
        *((translator, targets, False) for translator in backward),
    ):
        for line, translation in zip(lines, translate_stream(translator, lines, workers=workers), strict=True):
            new = (line, translation.text) if is_forward else (translation.text, line)
            if translation.text and NUL not in translation.text and new not in known:
                known.add(new)
                yield new
