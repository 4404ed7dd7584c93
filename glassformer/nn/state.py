"""What a generator remembers between two steps of decoding."""

from __future__ import annotations

import torch
from torch import Tensor

FIRST_STEPS = 32  # that there is room for at once; memory that is not written to yet costs nothing


class KeyValueCache:
    """The keys and values of the tokens so far, in a buffer that doubles when it is full.

    The heads of a token lie side by side, as they come out of the projection, so that a step writes few long
    pieces. `append` writes into the buffer, so a cache is stepped once; `select` gives one that shares nothing
    with it.
    """

    def __init__(self) -> None:
        self.length = 0
        self._buffer_2BKHE: Tensor | None = None

    def append(self, new_2BHQE: Tensor) -> Tensor:
        """Adds the keys and values of new tokens and returns all of them, 2×B×H×K×E."""
        start, self.length = self.length, self.length + new_2BHQE.shape[3]
        if self._buffer_2BKHE is None or self._buffer_2BKHE.shape[2] < self.length:
            self._make_room(start, like=new_2BHQE)
        assert self._buffer_2BKHE is not None
        all_2BHKE = self._buffer_2BKHE[:, :, : self.length].transpose(2, 3)
        all_2BHKE[:, :, :, start:] = new_2BHQE
        return all_2BHKE

    def select(self, sentences: Tensor) -> KeyValueCache:
        """The cache of these sentences, in this order; one may come twice."""
        chosen = KeyValueCache()
        chosen.length = self.length
        if self._buffer_2BKHE is not None:
            chosen._buffer_2BKHE = self._buffer_2BKHE.index_select(1, sentences)
        return chosen

    def _make_room(self, used: int, *, like: Tensor) -> None:
        two, B, H, Q, E = like.shape
        grown_2BKHE = like.new_empty(two, B, max(FIRST_STEPS * Q, 2 * self.length), H, E)
        if self._buffer_2BKHE is not None:
            grown_2BKHE[:, :, :used] = self._buffer_2BKHE[:, :, :used]
        self._buffer_2BKHE = grown_2BKHE


def sentences_of(rows: Tensor, copies: int) -> Tensor:
    """Which sentence each block of `copies` rows belongs to, for rows chosen by a beam search."""
    return torch.div(rows[::copies], copies, rounding_mode="floor")
