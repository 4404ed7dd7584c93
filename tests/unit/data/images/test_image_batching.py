"""Images in batches: each once an epoch, moved and mirrored by what the seed draws, and the same from any position."""

from __future__ import annotations

from itertools import islice

import torch

from glassformer.data.batching import BEGINNING
from glassformer.data.images.batching import ImageBatches, moved

PIXELS = torch.arange(11 * 2 * 5 * 3, dtype=torch.int64).view(11, 2, 5, 3).to(torch.uint8)
TARGETS = torch.arange(11)


def test_every_image_once_an_epoch_in_another_order() -> None:
    batches = ImageBatches(PIXELS, TARGETS, 4)
    drawn = list(islice(batches.forever(1, BEGINNING), 6))
    first, second = ([row for batch in part for row in batch.rows] for part in (drawn[:3], drawn[3:]))
    assert sorted(first) == sorted(second) == list(range(11)) and first != second
    assert all(torch.equal(batch.pixels_BCYX, PIXELS[batch.rows]) for batch in drawn)
    assert drawn[2].next == (1, 0) and drawn[3].next == (1, 1)
    assert batches.in_order() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]


def test_from_any_position_the_rest_is_the_same() -> None:
    batches = ImageBatches(PIXELS, TARGETS, 4, shift=1, flip=True)
    drawn = list(islice(batches.forever(1, BEGINNING), 8))
    again = list(islice(batches.forever(1, drawn[3].next), 4))
    for one, other in zip(drawn[4:], again, strict=True):
        assert one.rows == other.rows and torch.equal(one.pixels_BCYX, other.pixels_BCYX)
    other_seed = next(batches.forever(2, BEGINNING))
    assert other_seed.rows != drawn[0].rows


def test_parts_are_what_they_are_in_the_whole() -> None:
    batch = next(ImageBatches(PIXELS, TARGETS, 5, shift=2, flip=True).forever(3, BEGINNING))
    for number in range(2):
        part = batch.part(number, 2)
        assert part is not None and part.rows == batch.rows[number::2]
        assert torch.equal(part.pixels_BCYX, batch.pixels_BCYX[number::2])
    assert batch.part(5, 6) is None


def test_moved_and_mirrored() -> None:
    image = torch.tensor([[1, 2, 3], [4, 5, 6]])[None, None].expand(3, 1, 2, 3)
    moves, mirrored = torch.tensor([[0, 0], [1, 0], [0, -1]]), torch.tensor([True, False, False])
    out = moved(image, moves, mirrored)[:, 0].tolist()
    assert out[0] == [[3, 2, 1], [6, 5, 4]]
    assert out[1] == [[4, 5, 6], [4, 5, 6]]  # up by one; the lowest row is drawn out
    assert out[2] == [[1, 1, 2], [4, 4, 5]]  # right by one
