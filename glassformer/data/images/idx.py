"""idx files, as MNIST and its kin come in: a magic number of type and dimensions, the sizes, then the numbers."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import IO, cast

import numpy as np

from glassformer.errors import UserError

BYTES = 0x08  # the only type of number that images have


def is_idx(path: Path) -> bool:
    """Whether a file begins like one; its name does not matter."""
    try:
        with _opened(path) as file:
            start = file.read(4)
    except (OSError, EOFError, zlib.error):  # unreadable, or damaged gzip
        return False
    return len(start) == 4 and start[:3] == bytes([0, 0, BYTES]) and 1 <= start[3] <= 4


def read_idx(path: Path) -> np.ndarray:
    """The array, of bytes."""
    try:
        with _opened(path) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"This file cannot be read: {error}.", where=str(path), hint="download it again") from None
    dimensions = content[3]
    head = 4 + 4 * dimensions
    shape = [int.from_bytes(content[i : i + 4]) for i in range(4, head, 4)]
    if len(content) != head + math.prod(shape):
        raise UserError(
            f"This idx file is damaged: it promises {'×'.join(map(str, shape))} numbers and has "
            f"{max(0, len(content) - head):,}.",
            where=str(path),
            hint="download it again",
        )
    return np.frombuffer(bytearray(content[head:]), dtype=np.uint8).reshape(shape)


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return cast("IO[bytes]", gzip.open(path)) if packed else path.open("rb")
