"""Running text cut into sequences of one length, in an order that a seed and an epoch fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batching import BEGINNING, Batches, Epoch, Position, pad_rows


@dataclass(frozen=True)
class Running:
    """Sequences of a text. At every place, `next_BT` has the token that comes after the one of `tokens_BT`."""

    tokens_BT: Tensor
    next_BT: Tensor
    rows: list[int]  # which sequences
    next: Position = BEGINNING


class StreamBatches(Batches[Running]):
    """Cuts documents into sequences, and these into batches.

    A document is cut from its beginning; its last sequence may be shorter than the others. What stands before its
    first token is `before`; before the first of another sequence stands the last token of the one before it.
    """

    def __init__(self, documents: Sequence[np.ndarray], *, before: int, sequence: int, batch_tokens: int) -> None:
        self.sequence, self.rows_a_batch = sequence, max(1, batch_tokens // sequence)
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
        # Where a sequence begins, counted without what stands before the documents.
        self._documents_before = np.repeat(np.arange(len(documents)), [len(part) for part in starts])

    def __len__(self) -> int:
        return len(self._starts)

    def first_token(self, row: int) -> int:
        """The number of the token that a sequence predicts first, among those of all documents."""
        return int(self._starts[row] - self._documents_before[row])

    def epoch(self, seed: int, epoch: int) -> Epoch:
        """Batches of sequences in an order that is drawn anew each time."""
        return self._batches(np.random.default_rng([seed, epoch]).permutation(len(self)))

    def in_order(self) -> Epoch:
        """One pass, for validation."""
        return self._batches(np.arange(len(self)))

    def batch(self, rows: list[int], after: Position = BEGINNING) -> Running:
        spans = [(int(self._starts[row]), int(self._lengths[row])) for row in rows]
        if len({length for _, length in spans}) == 1:
            places_BT = np.array([start for start, _ in spans])[:, None] + np.arange(spans[0][1])
            tokens_BT, next_BT = (torch.from_numpy(self._tokens[places_BT + shift]) for shift in (0, 1))
        else:
            tokens_BT, next_BT = (
                pad_rows([self._tokens[start + shift : start + shift + length].tolist() for start, length in spans])
                for shift in (0, 1)
            )
        return Running(tokens_BT, next_BT, rows, after)

    def _batches(self, order: np.ndarray) -> Epoch:
        cuts = [*range(0, len(order), self.rows_a_batch), len(order)]
        return Epoch(order, cuts, np.arange(len(cuts) - 1))
