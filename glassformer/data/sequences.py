"""Running text as sequences of equal length, in a reproducible order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batching import BEGINNING, Batches, Epoch, Position, pad_rows


@dataclass(frozen=True)
class SequenceBatch:
    """Sequences of a text; `next_BT` contains the token that follows each token of `tokens_BT`."""

    tokens_BT: Tensor
    next_BT: Tensor
    rows: list[int]  # indices of the sequences
    next: Position = BEGINNING


class SequenceBatches(Batches[SequenceBatch]):
    """Batches of sequences cut from documents.

    The last sequence of a document may be shorter than the others. The token before a document's first token is
    `before`; the token before any other sequence is the last token of the previous sequence.
    """

    def __init__(self, documents: Sequence[np.ndarray], *, before: int, sequence: int, batch_tokens: int) -> None:
        self.sequence, self.batch_size = sequence, max(1, batch_tokens // sequence)
        starts, lengths, at = [], [], 0
        for document in documents:
            begins = np.arange(0, len(document), sequence)
            starts.append(at + begins)
            lengths.append(np.minimum(len(document) - begins, sequence))
            at += len(document) + 1
        self._tokens = np.concatenate([part for document in documents for part in ([before], document)]).astype(
            np.int64
        )
        self._starts, self._lengths = np.concatenate(starts), np.concatenate(lengths)
        # `_starts` counts one `before` token per document; this is their number before each sequence.
        self._documents_before = np.repeat(np.arange(len(documents)), [len(part) for part in starts])

    def __len__(self) -> int:
        return len(self._starts)

    def first_token(self, row: int) -> int:
        """Return the index, among the tokens of all documents, of the first token that a sequence predicts."""
        return int(self._starts[row] - self._documents_before[row])

    def epoch(self, seed: int, epoch: int) -> Epoch:
        """Return the batches of an epoch in random order."""
        return self._batches(np.random.default_rng([seed, epoch]).permutation(len(self)))

    def in_order(self) -> Epoch:
        return self._batches(np.arange(len(self)))

    def batch(self, rows: list[int], after: Position = BEGINNING) -> SequenceBatch:
        spans = [(int(self._starts[row]), int(self._lengths[row])) for row in rows]
        if len({length for _, length in spans}) == 1:
            places_BT = np.array([start for start, _ in spans])[:, None] + np.arange(spans[0][1])
            tokens_BT, next_BT = (torch.from_numpy(self._tokens[places_BT + shift]) for shift in (0, 1))
        else:
            tokens_BT, next_BT = (
                pad_rows([self._tokens[start + shift : start + shift + length].tolist() for start, length in spans])
                for shift in (0, 1)
            )
        return SequenceBatch(tokens_BT, next_BT, rows, after)

    def _batches(self, order: np.ndarray) -> Epoch:
        cuts = [*range(0, len(order), self.batch_size), len(order)]
        return Epoch(order, cuts, np.arange(len(cuts) - 1))
