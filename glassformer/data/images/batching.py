"""Batches of images in a reproducible order, with random shifts and flips."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batching import BEGINNING, Batches, Position


@dataclass(frozen=True)
class ImageBatch:
    """Images and the indices of their labels."""

    pixels_BCYX: Tensor  # uint8
    target_B: Tensor
    rows: list[int]  # indices of the images
    next: Position = BEGINNING

    def part(self, number: int, of: int) -> ImageBatch | None:
        """Return every `of`-th image from `number` on; None if there is none."""
        mine = slice(number, None, of)
        rows = self.rows[mine]
        return ImageBatch(self.pixels_BCYX[mine], self.target_B[mine], rows, self.next) if rows else None


class ImageBatches(Batches[ImageBatch]):
    """Batches of `size` images. Only `forever` augments them.

    shift  maximum shift in pixels in each direction; the border pixels are repeated
    flip   whether to flip half of the images horizontally
    """

    def __init__(self, pixels_NCYX: Tensor, target_N: Tensor, size: int, *, shift: int = 0, flip: bool = False) -> None:
        self.pixels_NCYX, self.target_N, self.size = pixels_NCYX, target_N, max(1, size)
        self.shift, self.flip = shift, flip

    def forever(self, seed: int, position: Position) -> Iterator[ImageBatch]:
        epoch, first = position
        while True:
            random = np.random.default_rng([seed, epoch])
            order = random.permutation(len(self.target_N))
            shifts_N2 = torch.from_numpy(random.integers(-self.shift, self.shift + 1, (len(order), 2)))
            flipped_N = torch.from_numpy((random.random(len(order)) < 0.5) & self.flip)
            cuts = range(0, len(order), self.size)
            for number in range(first, len(cuts)):
                here = slice(cuts[number], cuts[number] + self.size)
                after = Position(epoch, number + 1) if number + 1 < len(cuts) else Position(epoch + 1, 0)
                batch = self.batch(order[here].tolist(), after)
                if self.shift or self.flip:
                    pixels_BCYX = shift_and_flip(batch.pixels_BCYX, shifts_N2[here], flipped_N[here])
                    batch = replace(batch, pixels_BCYX=pixels_BCYX)
                yield batch
            epoch, first = epoch + 1, 0

    def in_order(self) -> list[list[int]]:
        count = len(self.target_N)
        return [list(range(first, min(first + self.size, count))) for first in range(0, count, self.size)]

    def batch(self, rows: list[int], after: Position = BEGINNING) -> ImageBatch:
        row_B = torch.tensor(rows)
        return ImageBatch(self.pixels_NCYX[row_B], self.target_N[row_B], rows, after)


def shift_and_flip(pixels_BCYX: Tensor, shifts_B2: Tensor, flipped_B: Tensor) -> Tensor:
    """Flip the selected images horizontally, then shift each image up and left by its (y, x) shift."""
    B, C, Y, X = pixels_BCYX.shape
    column_X = torch.arange(X)
    row_BY = (shifts_B2[:, :1] + torch.arange(Y)).clamp(0, Y - 1)
    column_BX = (shifts_B2[:, 1:] + column_X).clamp(0, X - 1)
    column_BX = torch.where(flipped_B[:, None], X - 1 - column_BX, column_BX)
    image_B, channel_C = torch.arange(B)[:, None, None, None], torch.arange(C)[None, :, None, None]
    return pixels_BCYX[image_B, channel_C, row_BY[:, None, :, None], column_BX[:, None, None, :]]
