"""Batches of sentence pairs of similar length, with a budget of tokens per batch, in a reproducible order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from glassformer.data.store import EncodedPairs, IdList
from glassformer.text.ragged import Ragged
from glassformer.text.tokenizer import EOS, PAD, SOS


class Position(NamedTuple):
    """The next batch of the training data: its epoch, and its index within the epoch."""

    epoch: int = 0
    batch: int = 0


BEGINNING = Position()


@dataclass(frozen=True)
class Batch:
    """Padded token ids. The decoder reads `<sos> Je vais bien` and predicts `Je vais bien <eos>`."""

    source_BS: Tensor
    target_in_BT: Tensor
    target_out_BT: Tensor
    rows: list[int]  # indices of the pairs
    next: Position = BEGINNING

    @property
    def target_tokens(self) -> int:
        """Number of target tokens without padding; the benchmarks count them."""
        return int((self.target_out_BT != PAD).sum())


@dataclass(frozen=True)
class CorpusWeight:
    """A number of consecutive pairs, and how often each of them occurs in an epoch on average."""

    pairs: int
    weight: float = 1.0


AnyBatch = TypeVar("AnyBatch")


class Batches(Generic[AnyBatch]):
    """Batches of a data set. A subclass defines the rows of an epoch and how rows become a batch."""

    def epoch(self, seed: int, epoch: int) -> Epoch:
        """Return the batches of an epoch as lists of rows."""
        raise NotImplementedError

    def in_order(self) -> Sequence[list[int]]:
        """Return one pass as lists of rows, always the same, for validation."""
        raise NotImplementedError

    def batch(self, rows: list[int], after: Position = BEGINNING) -> AnyBatch:
        """Return the batch of these rows."""
        raise NotImplementedError

    def forever(self, seed: int, position: Position) -> Iterator[AnyBatch]:
        """Yield batches endlessly, epoch after epoch, from a position on."""
        epoch, first = position
        while True:
            batches = self.epoch(seed, epoch)
            for i in range(first, len(batches)):
                after = Position(epoch, i + 1) if i + 1 < len(batches) else Position(epoch + 1, 0)
                yield self.batch(batches[i], after)
            epoch, first = epoch + 1, 0


class PairBatches(Batches[Batch]):
    """Batches of encoded pairs.

    Pairs are sorted by source length, then target length, and cut so that rows × the longer side is at most
    `batch_tokens`. A batch ends where the source length changes if it is at least half full, so most batches have
    sources of equal length and need no padding and no mask. Target lengths alternately ascend and descend from one
    source length to the next, so that a batch with two source lengths has similar target lengths.

    weights  of consecutive corpora; a pair with weight 2.3 occurs twice per epoch, and a third time in 3 of 10 epochs
    """

    def __init__(
        self,
        pairs: EncodedPairs | Sequence[tuple[IdList, IdList]],
        batch_tokens: int,
        *,
        weights: Sequence[CorpusWeight] = (),
    ) -> None:
        self.pairs = pairs if isinstance(pairs, EncodedPairs) else EncodedPairs.from_lists(pairs)
        self.batch_tokens = batch_tokens
        self.weights = weights if any(corpus.weight != 1 for corpus in weights) else ()
        lengths = (np.asarray(lengths) for lengths in (self.pairs.source_lengths, self.pairs.target_lengths))
        self._source, self._target = (side + side.dtype.type(1) for side in lengths)  # + 1 for <eos>
        self._target_order = np.where(self._source % 2, self._target.max() - self._target, self._target)

    @property
    def longest(self) -> int:
        """Number of tokens of the longest line of either side, including `<eos>`."""
        return int(max(self._source.max(), self._target.max()))

    @property
    def length_ratio(self) -> float:
        """Target tokens per source token."""
        return int(self._target.sum(dtype=np.int64)) / int(self._source.sum(dtype=np.int64))

    @property
    def length_ratio_error(self) -> float:
        """The standard error of `length_ratio` as an estimate for all text of this kind."""
        residuals = self._target - self.length_ratio * self._source
        return float(np.linalg.norm(residuals)) / int(self._source.sum(dtype=np.int64))

    def epoch(self, seed: int, epoch: int) -> Epoch:
        """Return the batches of an epoch. Ties of length and the order of batches are random."""
        random = np.random.default_rng([seed, epoch])
        rows = self._weighted_rows(seed, epoch)
        ties = random.random(len(self.pairs) if rows is None else len(rows))
        order = self._by_length(rows, ties)
        cuts = self._cuts(order)
        return Epoch(order, cuts, random.permutation(len(cuts) - 1))

    def in_order(self) -> Epoch:
        """Return one pass in order of length, for validation."""
        order = self._by_length(None, None)
        cuts = self._cuts(order)
        return Epoch(order, cuts, np.arange(len(cuts) - 1))

    def batch(self, rows: list[int], after: Position = BEGINNING) -> Batch:
        source, target = self.pairs.sides(np.array(rows))
        return Batch(
            source_BS=_pad_ragged(source, last=EOS),
            target_in_BT=_pad_ragged(target, first=SOS),
            target_out_BT=_pad_ragged(target, last=EOS),
            rows=rows,
            next=after,
        )

    def _weighted_rows(self, seed: int, epoch: int) -> np.ndarray | None:
        """Return the rows of an epoch with repetitions; None for each row once."""
        if not self.weights:
            return None
        random = np.random.default_rng([seed, epoch, 1])  # independent of the order, which is the same without weights
        first, parts = 0, []
        for corpus in self.weights:
            times = int(corpus.weight) + (random.random(corpus.pairs) < corpus.weight % 1)
            parts.append(np.repeat(np.arange(first, first + corpus.pairs, dtype=np.uint32), times))
            first += corpus.pairs
        return np.concatenate(parts)

    def _by_length(self, rows: np.ndarray | None, ties: np.ndarray | None) -> np.ndarray:
        # Lengths are 16-bit integers if possible: NumPy sorts these in a few passes with little memory.
        keys = [self._target_order, self._source]
        if rows is not None:
            keys = [key[rows] for key in keys]
        order = np.lexsort(keys if ties is None else [ties, *keys]).astype(np.uint32)
        return order if rows is None else rows[order]

    def _cuts(self, order: np.ndarray) -> list[int]:
        """Return the start of each batch in `order`, and the end. Steps over runs of equal lengths, not over rows."""
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
    """The batches of an epoch as lists of rows: slices of `order` between `cuts`, in the order of `batches`."""

    def __init__(self, order: np.ndarray, cuts: list[int], batches: np.ndarray) -> None:
        self._order, self._cuts, self._batches = order, cuts, batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        batch = int(self._batches[number])
        return self._order[self._cuts[batch] : self._cuts[batch + 1]].tolist()


def _pad_ragged(rows: Ragged, *, first: int | None = None, last: int | None = None) -> Tensor:
    """Pad rows at the end to the longest, with an additional first or last token."""
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
    """Return lists of token ids as one tensor, padded at the end to the longest."""
    longest = max(len(row) for row in rows)
    padded = np.full((len(rows), longest), PAD, dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return torch.from_numpy(padded)
