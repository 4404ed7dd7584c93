"""Batches of images: once per epoch, shifted and flipped by the seed, and the same from any position."""

from __future__ import annotations

from itertools import islice

import torch

from glassformer.data.batching import BEGINNING
from glassformer.data.images.batching import ImageBatches, shift_and_flip

PIXELS = torch.arange(11 * 2 * 5 * 3, dtype=torch.int64).view(11, 2, 5, 3).to(torch.uint8)
TARGETS = torch.arange(11)


def test_an_epoch_has_every_image_once_in_random_order() -> None:
    batches = ImageBatches(PIXELS, TARGETS, 4)
    drawn = list(islice(batches.forever(1, BEGINNING), 6))
    first, second = ([row for batch in part for row in batch.rows] for part in (drawn[:3], drawn[3:]))
    assert sorted(first) == sorted(second) == list(range(11)) and first != second
    assert all(torch.equal(batch.pixels_BCYX, PIXELS[batch.rows]) for batch in drawn)
    assert drawn[2].next == (1, 0) and drawn[3].next == (1, 1)
    assert batches.in_order() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]


def test_batches_can_be_resumed_from_any_position() -> None:
    batches = ImageBatches(PIXELS, TARGETS, 4, shift=1, flip=True)
    drawn = list(islice(batches.forever(1, BEGINNING), 8))
    again = list(islice(batches.forever(1, drawn[3].next), 4))
    for one, other in zip(drawn[4:], again, strict=True):
        assert one.rows == other.rows and torch.equal(one.pixels_BCYX, other.pixels_BCYX)
    other_seed = next(batches.forever(2, BEGINNING))
    assert other_seed.rows != drawn[0].rows


def test_parts_of_a_batch_equal_its_rows() -> None:
    batch = next(ImageBatches(PIXELS, TARGETS, 5, shift=2, flip=True).forever(3, BEGINNING))
    for number in range(2):
        part = batch.part(number, 2)
        assert part is not None and part.rows == batch.rows[number::2]
        assert torch.equal(part.pixels_BCYX, batch.pixels_BCYX[number::2])
    assert batch.part(5, 6) is None


def test_shift_and_flip() -> None:
    image = torch.tensor([[1, 2, 3], [4, 5, 6]])[None, None].expand(3, 1, 2, 3)
    moves, mirrored = torch.tensor([[0, 0], [1, 0], [0, -1]]), torch.tensor([True, False, False])
    out = shift_and_flip(image, moves, mirrored)[:, 0].tolist()
    assert out[0] == [[3, 2, 1], [6, 5, 4]]
    assert out[1] == [[4, 5, 6], [4, 5, 6]]  # up by one; the lowest row is repeated
    assert out[2] == [[1, 1, 2], [4, 4, 5]]  # right by one
