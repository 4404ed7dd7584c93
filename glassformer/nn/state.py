"""What a generator remembers between two steps of decoding."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class KeyValue(NamedTuple):
    """Projected keys and values of one attention."""

    key_BHKE: Tensor
    value_BHKE: Tensor

    def select(self, rows: Tensor) -> KeyValue:
        return KeyValue(self.key_BHKE.index_select(0, rows), self.value_BHKE.index_select(0, rows))


class KeyValueCache:
    """The keys and values of the tokens so far, in buffers that double when they are full.

    `append` writes into the buffers, so a cache is stepped once; `select` gives one that shares nothing with it.
    """

    def __init__(self) -> None:
        self.length = 0
        self._buffers: KeyValue | None = None

    def append(self, key_BH1E: Tensor, value_BH1E: Tensor) -> KeyValue:
        """Adds the keys and values of new tokens and returns all of them."""
        end = self.length + key_BH1E.shape[2]
        buffers = self._room_for(end, like=key_BH1E)
        buffers.key_BHKE[:, :, self.length : end] = key_BH1E
        buffers.value_BHKE[:, :, self.length : end] = value_BH1E
        self.length = end
        return KeyValue(buffers.key_BHKE[:, :, :end], buffers.value_BHKE[:, :, :end])

    def select(self, rows: Tensor) -> KeyValueCache:
        """The cache of these rows, in this order; a row may come twice."""
        chosen = KeyValueCache()
        chosen.length = self.length
        if self._buffers is not None:
            chosen._buffers = self._buffers.select(rows)
        return chosen

    def _room_for(self, length: int, *, like: Tensor) -> KeyValue:
        if self._buffers is None or self._buffers.key_BHKE.shape[2] < length:
            B, H, _, E = like.shape
            room = max(32, 2 * length)
            grown = KeyValue(like.new_zeros(B, H, room, E), like.new_zeros(B, H, room, E))
            if self._buffers is not None:
                for new, old in zip(grown, self._buffers, strict=True):
                    new[:, :, : self.length] = old[:, :, : self.length]
            self._buffers = grown
        return self._buffers


def sentences_of(rows: Tensor, copies: int) -> Tensor:
    """Which sentence each block of `copies` rows belongs to, for rows chosen by a beam search."""
    return torch.div(rows[::copies], copies, rounding_mode="floor")
