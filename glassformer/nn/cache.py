"""The key–value cache of step-by-step decoding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FIRST_STEPS = 32  # initial capacity in steps; memory that is never written costs nothing


@dataclass
class _Buffer:
    """A preallocated buffer of keys and values. `used` is the length of the longest cache that shares it."""

    values_2BKHE: Tensor
    used: int


class KeyValueCache:
    """The keys and values of the tokens so far.

    The heads of a token are adjacent in memory, as in the output of the projection, so that a step writes a few
    contiguous blocks. Caches made by `fork` share one buffer as long as only one of them is appended to.
    """

    def __init__(self) -> None:
        self.length = 0
        self._buffer: _Buffer | None = None

    def append(self, key_BHQE: Tensor, value_BHQE: Tensor) -> Tensor:
        """Append the keys and values of new tokens; return all of them, 2×B×H×K×E."""
        start, end = self.length, self.length + key_BHQE.shape[2]
        buffer = self._buffer
        if buffer is None or buffer.values_2BKHE.shape[2] < end or buffer.used != start:
            buffer = self._buffer = self._grown(end, like=key_BHQE)
        self.length = buffer.used = end
        all_2BHKE = buffer.values_2BKHE[:, :, :end].transpose(2, 3)
        all_2BHKE[0, :, :, start:] = key_BHQE
        all_2BHKE[1, :, :, start:] = value_BHQE
        return all_2BHKE

    def fork(self) -> KeyValueCache:
        """Return a cache with the same contents. Appending to one of them does not change the other."""
        fork = KeyValueCache()
        fork.length, fork._buffer = self.length, self._buffer
        return fork

    def select(self, rows: Tensor) -> KeyValueCache:
        """Return a cache of these rows of the batch, in this order; a row may be repeated."""
        chosen = KeyValueCache()
        chosen.length = self.length
        if self._buffer is not None:
            chosen._buffer = _Buffer(self._buffer.values_2BKHE.index_select(1, rows), self.length)
        return chosen

    def _grown(self, end: int, *, like: Tensor) -> _Buffer:
        """Return a new buffer with room for twice as many tokens and a copy of the tokens so far."""
        B, H, Q, E = like.shape
        values_2BKHE = like.new_empty(2, B, max(FIRST_STEPS * Q, 2 * end), H, E)
        if self._buffer is not None:
            values_2BKHE[:, :, : self.length] = self._buffer.values_2BKHE[:, :, : self.length]
        return _Buffer(values_2BKHE, self.length)


def sentences_of(rows: Tensor, beam: int) -> Tensor:
    """Return which sentence each block of `beam` rows belongs to, for rows chosen by a beam search."""
    return torch.div(rows[::beam], beam, rounding_mode="floor")
