"""Encoding of a whole corpus, with a cache of the words seen so far."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from glassformer.text.ragged import Ragged, gather_rows
from glassformer.text.tokenizer import Tokenizer


class CachingEncoder:
    """Encodes normalized lines into one array, with a cache of the words seen so far.

    No token contains a space inside, so the ids of a line are the ids of its words, and most words recur. Several
    times faster than `Tokenizer.encode_batch`, with the same ids.
    """

    MAX_WORDS = 300_000  # the cache is emptied beyond this size, to bound the memory

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # An imported tokenizer may split words differently: then the whole line is cached.
        self._space = " " if tokenizer.splits_at_spaces() else None
        self._reset()

    def __call__(self, lines: Sequence[str]) -> Ragged:
        """Return the concatenated ids of all lines, and the number of ids per line."""
        if not lines:
            return Ragged(self._ids[:0], self._lengths[:0])
        if len(self._word_ids) > self.MAX_WORDS:
            self._reset()
        words = list(lines) if self._space is None else self._space.join(lines).split(self._space)
        numbers = np.fromiter(map(self._word_ids.__getitem__, words), dtype=np.int64, count=len(words))
        self._encode_new_words()
        ids, lengths = gather_rows(self._ids, self._starts[numbers], self._lengths[numbers])
        if self._space is not None:
            words_of = np.fromiter((line.count(" ") + 1 for line in lines), dtype=np.int64, count=len(lines))
            lengths = np.add.reduceat(lengths, np.cumsum(words_of) - words_of)
        return Ragged(ids, lengths)

    def _reset(self) -> None:
        self._word_ids = _WordIds()
        self._ids, self._starts, self._lengths = (np.zeros(0, dtype=np.int64) for _ in range(3))

    def _encode_new_words(self) -> None:
        if new := self._word_ids.take_new():
            encoded = self._tokenizer.encode_batch(new)
            lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(new))
            ids = np.fromiter(chain.from_iterable(encoded), dtype=np.int64, count=int(lengths.sum()))
            self._starts = np.concatenate([self._starts, len(self._ids) + np.cumsum(lengths) - lengths])
            self._ids = np.concatenate([self._ids, ids])
            self._lengths = np.concatenate([self._lengths, lengths])


class _WordIds(dict[str, int]):
    """Assigns consecutive numbers to words on first access."""

    def __init__(self) -> None:
        self._new: list[str] = []

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        self._new.append(word)
        return number

    def take_new(self) -> list[str]:
        new, self._new = self._new, []
        return new
