"""Sentence pairs of like length together, a budget of tokens a batch, in an order that a seed and an epoch fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from glassformer.data.store import IdList, Ids
from glassformer.text.ragged import Ragged
from glassformer.text.tokenizer import EOS, PAD, SOS


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


@dataclass(frozen=True)
class Share:
    """A part of the pairs, and how often an epoch sees each of them on average."""

    pairs: int
    weight: float = 1.0


AnyBatch = TypeVar("AnyBatch")


class Batches(Generic[AnyBatch]):
    """Rows of a data set in batches, epoch after epoch."""

    def epoch(self, seed: int, epoch: int) -> Epoch:
        """The batches of an epoch, as rows."""
        raise NotImplementedError

    def batch(self, rows: list[int], after: Position = BEGINNING) -> AnyBatch:
        """Those rows, as a model takes them."""
        raise NotImplementedError

    def forever(self, seed: int, position: Position) -> Iterator[AnyBatch]:
        """All batches of an epoch, and of the next, without end, from a position."""
        epoch, first = position
        while True:
            batches = self.epoch(seed, epoch)
            for i in range(first, len(batches)):
                after = Position(epoch, i + 1) if i + 1 < len(batches) else Position(epoch + 1, 0)
                yield self.batch(batches[i], after)
            epoch, first = epoch + 1, 0


class PairBatches(Batches[Batch]):
    """Cuts encoded pairs into batches.

    Pairs are sorted by source length, then target length, and cut so that rows × the longer side stays within
    `batch_tokens`. A batch ends where the source length changes if it is at least half full, so most batches have
    sources of one length: no padding, no mask. The targets of one source length rise and those of the next fall,
    so that where two lengths do meet in a batch, their targets are alike.

    shares  of successive pairs; a pair of weight 2.3 is seen twice an epoch, and a third time in 3 epochs of 10
    """

    def __init__(
        self, pairs: Ids | Sequence[tuple[IdList, IdList]], batch_tokens: int, *, shares: Sequence[Share] = ()
    ) -> None:
        self.pairs = pairs if isinstance(pairs, Ids) else Ids.of(pairs)
        self.batch_tokens = batch_tokens
        self.shares = shares if any(share.weight != 1 for share in shares) else ()
        lengths = (np.asarray(lengths) for lengths in (self.pairs.source_lengths, self.pairs.target_lengths))
        self._source, self._target = (side + side.dtype.type(1) for side in lengths)  # each has one <eos> more
        self._rising_and_falling = np.where(self._source % 2, self._target.max() - self._target, self._target)

    @property
    def longest(self) -> int:
        """Tokens of the longest line of either side, `<eos>` included."""
        return int(max(self._source.max(), self._target.max()))

    def epoch(self, seed: int, epoch: int) -> Epoch:
        """The batches of an epoch. Ties of length and the order of batches are drawn anew each time."""
        random = np.random.default_rng([seed, epoch])
        rows = self._drawn(seed, epoch)
        ties = random.random(len(self.pairs) if rows is None else len(rows))
        order = self._by_length(rows, ties)
        cuts = self._cuts(order)
        return Epoch(order, cuts, random.permutation(len(cuts) - 1))

    def in_order(self) -> Epoch:
        """One pass by length, for validation."""
        order = self._by_length(None, None)
        cuts = self._cuts(order)
        return Epoch(order, cuts, np.arange(len(cuts) - 1))

    def batch(self, rows: list[int], after: Position = BEGINNING) -> Batch:
        source, target = self.pairs.sides(np.array(rows))
        return Batch(
            source_BS=_padded(source, last=EOS),
            target_in_BT=_padded(target, first=SOS),
            target_out_BT=_padded(target, last=EOS),
            rows=rows,
            next=after,
        )

    def _drawn(self, seed: int, epoch: int) -> np.ndarray | None:
        """The rows of an epoch, some of them several times; None for each of them once."""
        if not self.shares:
            return None
        random = np.random.default_rng([seed, epoch, 1])  # apart from the order, which is as without weights
        first, parts = 0, []
        for share in self.shares:
            times = int(share.weight) + (random.random(share.pairs) < share.weight % 1)
            parts.append(np.repeat(np.arange(first, first + share.pairs, dtype=np.uint32), times))
            first += share.pairs
        return np.concatenate(parts)

    def _by_length(self, rows: np.ndarray | None, ties: np.ndarray | None) -> np.ndarray:
        # Lengths are 16-bit numbers where they can be: these sort in a few passes, with little memory.
        keys = [self._rising_and_falling, self._source]
        if rows is not None:
            keys = [key[rows] for key in keys]
        order = np.lexsort(keys if ties is None else [ties, *keys]).astype(np.uint32)
        return order if rows is None else rows[order]

    def _cuts(self, order: np.ndarray) -> list[int]:
        """Where each batch begins in `order`, and its end. Goes from run to run of equal lengths, not row by row."""
        source, target = self._source[order], self._target[order]
        changes = np.flatnonzero((np.diff(source) != 0) | (np.diff(target) != 0)) + 1
        begins = np.concatenate([[0], changes]) if len(order) else changes
        cuts, widest, length = [0], 0, 0
        ends = [*begins[1:].tolist(), len(order)][: len(begins)]
        runs = zip(begins.tolist(), ends, source[begins].tolist(), target[begins].tolist(), strict=True)
        for begin, end, s, t in runs:
            rows, wider = begin - cuts[-1], max(widest, s, t)
            full = wider * (rows + 1) > self.batch_tokens
            new_length = s != length and widest * rows >= self.batch_tokens / 2
            if rows and (full or new_length):
                cuts.append(begin)
                wider = max(s, t)
            while cuts[-1] + max(self.batch_tokens // wider, 1) < end:
                cuts.append(cuts[-1] + max(self.batch_tokens // wider, 1))
                wider = max(s, t)
            widest, length = wider, s
        return [*cuts, len(order)] if len(order) else cuts


class Epoch(Sequence[list[int]]):
    """Batches as rows of the corpus: slices of one order, themselves in an order."""

    def __init__(self, order: np.ndarray, cuts: list[int], batches: np.ndarray) -> None:
        self._order, self._cuts, self._batches = order, cuts, batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        batch = int(self._batches[number])
        return self._order[self._cuts[batch] : self._cuts[batch + 1]].tolist()


def _padded(rows: Ragged, *, first: int | None = None, last: int | None = None) -> Tensor:
    """Rows with one more token before or behind, padded at the end to the longest."""
    shift = int(first is not None)
    count, longest = len(rows.lengths), int(rows.lengths.max()) + 1
    padded = np.full((count, longest), PAD, dtype=np.int64)
    columns = np.arange(longest)
    ends = rows.lengths[:, None] + shift
    padded[(columns >= shift) & (columns < ends)] = rows.flat
    if first is not None:
        padded[:, 0] = first
    if last is not None:
        padded[np.arange(count), rows.lengths] = last
    return torch.from_numpy(padded)


def pad_rows(rows: Sequence[IdList]) -> Tensor:
    """Rows of ids to one tensor, padded at the end to the longest."""
    longest = max(len(row) for row in rows)
    padded = np.full((len(rows), longest), PAD, dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return torch.from_numpy(padded)
