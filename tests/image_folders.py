"""Folders of random images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def write_images(folder: Path, count: int, *, width: int = 8, seed: int = 1) -> None:
    """Write `count` random grey images per class, "cat" and "dog", to the folder `images` in a folder."""
    random = np.random.default_rng(seed)
    for label in ("cat", "dog"):
        (folder / "images" / label).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(0, 256, (8, width), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"images/{label}/{number}.png")
