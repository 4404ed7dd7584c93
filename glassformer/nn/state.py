"""What a generator remembers between two steps of decoding."""

from __future__ import annotations

import torch
from torch import Tensor

FIRST_STEPS = 32  # that there is room for at once; memory that is not written to yet costs nothing


class _Buffer:
    """Storage for keys and values, 2×B×K×H×E, shared by a cache and its copies.

    `filled` counts the positions that hold data. A cache may write in place only where it is as long as that.
    """

    def __init__(self, storage_2BKHE: Tensor, filled: int = 0) -> None:
        self.storage_2BKHE, self.filled = storage_2BKHE, filled


class KeyValueCache:
    """The keys and values of the tokens so far, in a buffer that doubles in size when it is full.

    The heads of a token are adjacent, as they come out of the projection, so that a step writes few long pieces.

    `copy` costs nothing: the copies share one buffer until two of them append different tokens at the same position.
    The second to do so gets a buffer of its own, so no copy sees what is appended to another one.
    """

    def __init__(self) -> None:
        self.length = 0
        self._buffer: _Buffer | None = None

    def append(self, new_2BHQE: Tensor) -> Tensor:
        """Add the keys and values of new tokens and return all of them, 2×B×H×K×E."""
        start, end = self.length, self.length + new_2BHQE.shape[3]
        buffer = self._buffer
        if buffer is None or buffer.filled != start or buffer.storage_2BKHE.shape[2] < end:
            buffer = self._buffer = self._grown(end, like=new_2BHQE)
        all_2BHKE = buffer.storage_2BKHE[:, :, :end].transpose(2, 3)
        all_2BHKE[:, :, :, start:] = new_2BHQE
        self.length = buffer.filled = end
        return all_2BHKE

    def copy(self) -> KeyValueCache:
        """Return a cache with the same content that can be appended to independently."""
        other = KeyValueCache()
        other.length, other._buffer = self.length, self._buffer
        return other

    def select(self, sentences: Tensor) -> KeyValueCache:
        """Return the cache of these sentences, in this order; a sentence may occur more than once."""
        chosen = KeyValueCache()
        if self._buffer is not None:
            chosen.length = self.length
            chosen._buffer = _Buffer(self._buffer.storage_2BKHE.index_select(1, sentences), self.length)
        return chosen

    def _grown(self, length: int, *, like: Tensor) -> _Buffer:
        """Return a buffer with room for more than `length` tokens that holds what this cache holds."""
        two, B, H, Q, E = like.shape
        storage_2BKHE = like.new_empty(two, B, max(FIRST_STEPS * Q, 2 * length), H, E)
        if self._buffer is not None:
            storage_2BKHE[:, :, : self.length] = self._buffer.storage_2BKHE[:, :, : self.length]
        return _Buffer(storage_2BKHE, self.length)


def sentences_of(rows: Tensor, copies: int) -> Tensor:
    """Which sentence each block of `copies` rows belongs to, for rows chosen by a beam search."""
    return torch.div(rows[::copies], copies, rounding_mode="floor")
