"""Sentence pairs of like length together, a budget of tokens a batch, in an order that a seed and an epoch fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.text.tokenizer import EOS, PAD, SOS

Ids = Sequence[int]


class Position(NamedTuple):
    """How far the training data has been read: the next batch, in which epoch."""

    epoch: int = 0
    batch: int = 0


BEGINNING = Position()


@dataclass(frozen=True)
class Batch:
    """Padded ids. The decoder reads `<sos> Je vais bien` and is to write `Je vais bien <eos>`."""

    source_BS: Tensor
    target_in_BT: Tensor
    target_out_BT: Tensor
    rows: list[int]  # which pairs of the corpus
    next: Position = BEGINNING

    @property
    def target_tokens(self) -> int:
        return int((self.target_out_BT != PAD).sum())


class PairBatches:
    """Cuts encoded pairs into batches.

    Pairs are sorted by source length, then target length, and cut so that rows × the longer side stays within
    `batch_tokens`. A batch ends where the source length changes if it is at least half full, so most batches have
    sources of one length: no padding, no mask. The targets of one source length rise and those of the next fall,
    so that where two lengths do meet in a batch, their targets are alike.
    """

    def __init__(self, pairs: Sequence[tuple[Ids, Ids]], batch_tokens: int) -> None:
        self.pairs, self.batch_tokens = pairs, batch_tokens
        self._source = np.array([len(source) + 1 for source, _ in pairs])  # each side has one <eos> more
        self._target = np.array([len(target) + 1 for _, target in pairs])
        self._rising_and_falling = np.where(self._source % 2, -self._target, self._target)

    @property
    def longest(self) -> int:
        """Tokens of the longest line of either side, `<eos>` included."""
        return int(max(self._source.max(), self._target.max()))

    def epoch(self, seed: int, epoch: int) -> list[list[int]]:
        """The batches of an epoch, as rows. Ties of length and the order of batches are drawn anew each time."""
        random = np.random.default_rng([seed, epoch])
        order = np.lexsort([random.random(len(self.pairs)), self._rising_and_falling, self._source])
        cuts = self._cut(order)
        return [cuts[i] for i in random.permutation(len(cuts))]

    def in_order(self) -> list[list[int]]:
        """One pass by length, for validation."""
        return self._cut(np.lexsort([self._rising_and_falling, self._source]))

    def forever(self, seed: int, position: Position) -> Iterator[Batch]:
        """Every pair once an epoch, epoch after epoch, from a position on."""
        epoch, first = position
        while True:
            batches = self.epoch(seed, epoch)
            for i in range(first, len(batches)):
                after = Position(epoch, i + 1) if i + 1 < len(batches) else Position(epoch + 1, 0)
                yield self.batch(batches[i], after)
            epoch, first = epoch + 1, 0

    def batch(self, rows: list[int], after: Position = BEGINNING) -> Batch:
        sources = [[*self.pairs[row][0], EOS] for row in rows]
        targets = [self.pairs[row][1] for row in rows]
        return Batch(
            source_BS=pad_rows(sources),
            target_in_BT=pad_rows([[SOS, *target] for target in targets]),
            target_out_BT=pad_rows([[*target, EOS] for target in targets]),
            rows=rows,
            next=after,
        )

    def _cut(self, order: np.ndarray) -> list[list[int]]:
        batches: list[list[int]] = []
        rows: list[int] = []
        widest = length = 0
        for row in order.tolist():
            source, target = int(self._source[row]), int(self._target[row])
            wider = max(widest, source, target)
            full = wider * (len(rows) + 1) > self.batch_tokens
            new_length = source != length and widest * len(rows) >= self.batch_tokens / 2
            if rows and (full or new_length):
                batches.append(rows)
                rows, wider = [], max(source, target)
            rows.append(row)
            widest, length = wider, source
        return [*batches, rows] if rows else batches


def pad_rows(rows: Sequence[Ids]) -> Tensor:
    """Rows of ids to one tensor, padded at the end to the longest."""
    longest = max(len(row) for row in rows)
    padded = np.full((len(rows), longest), PAD, dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return torch.from_numpy(padded)
