"""Images in batches, in an order that a seed and an epoch fix, moved and mirrored by what the same seed draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batching import BEGINNING, Position


@dataclass(frozen=True)
class ImageBatch:
    pixels_BCYX: Tensor  # bytes
    target_B: Tensor  # numbers of their labels
    rows: list[int]  # which images of the data
    next: Position = BEGINNING

    def part(self, number: int, of: int) -> ImageBatch | None:
        """Every `of`-th image from `number` on, as it is here; None where that is none."""
        mine = slice(number, None, of)
        rows = self.rows[mine]
        return ImageBatch(self.pixels_BCYX[mine], self.target_B[mine], rows, self.next) if rows else None


class ImageBatches:
    """Cuts images into batches of a size.

    shift  pixels that an image of `forever` is moved by at most, each way; what moves in is the edge, drawn out
    flip   whether half of them are mirrored, left for right
    """

    def __init__(self, pixels_NCYX: Tensor, target_N: Tensor, size: int, *, shift: int = 0, flip: bool = False) -> None:
        self.pixels_NCYX, self.target_N, self.size = pixels_NCYX, target_N, max(1, size)
        self.shift, self.flip = shift, flip

    def forever(self, seed: int, position: Position) -> Iterator[ImageBatch]:
        """Every image once an epoch, in an order of its own, epoch after epoch, from a position on."""
        epoch, first = position
        while True:
            random = np.random.default_rng([seed, epoch])
            order = random.permutation(len(self.target_N))
            moves_N2 = torch.from_numpy(random.integers(-self.shift, self.shift + 1, (len(order), 2)))
            mirrored_N = torch.from_numpy((random.random(len(order)) < 0.5) & self.flip)
            cuts = range(0, len(order), self.size)
            for number in range(first, len(cuts)):
                here = slice(cuts[number], cuts[number] + self.size)
                after = Position(epoch, number + 1) if number + 1 < len(cuts) else Position(epoch + 1, 0)
                batch = self.batch(order[here].tolist(), after)
                yield _moved(batch, moves_N2[here], mirrored_N[here]) if self.shift or self.flip else batch
            epoch, first = epoch + 1, 0

    def in_order(self) -> list[list[int]]:
        """One pass, for validation."""
        count = len(self.target_N)
        return [list(range(first, min(first + self.size, count))) for first in range(0, count, self.size)]

    def batch(self, rows: list[int], after: Position = BEGINNING) -> ImageBatch:
        row_B = torch.tensor(rows)
        return ImageBatch(self.pixels_NCYX[row_B], self.target_N[row_B], rows, after)


def _moved(batch: ImageBatch, moves_B2: Tensor, mirrored_B: Tensor) -> ImageBatch:
    return ImageBatch(moved(batch.pixels_BCYX, moves_B2, mirrored_B), batch.target_B, batch.rows, batch.next)


def moved(pixels_BCYX: Tensor, moves_B2: Tensor, mirrored_B: Tensor) -> Tensor:
    """Each image moved up and left by its number of pixels, after it was mirrored where that is asked for."""
    B, C, Y, X = pixels_BCYX.shape
    column_X = torch.arange(X)
    row_BY = (moves_B2[:, :1] + torch.arange(Y)).clamp(0, Y - 1)
    column_BX = (moves_B2[:, 1:] + column_X).clamp(0, X - 1)
    column_BX = torch.where(mirrored_B[:, None], X - 1 - column_BX, column_BX)
    image_B, channel_C = torch.arange(B)[:, None, None, None], torch.arange(C)[None, :, None, None]
    return pixels_BCYX[image_B, channel_C, row_BY[:, None, :, None], column_BX[:, None, None, :]]
