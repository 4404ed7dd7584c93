"""idx files, the format of MNIST: a magic number with type and number of dimensions, the sizes, the values."""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import IO, cast

import numpy as np

from glassformer.errors import UserError
from glassformer.limits import IDX_FILE, open_gzip

UNSIGNED_BYTE = 0x08  # type code of the magic number


def is_idx(path: Path) -> bool:
    """Return whether a file starts like an idx file of bytes, whatever its name."""
    try:
        with _opened(path) as file:
            start = file.read(4)
    except (OSError, EOFError, zlib.error):  # unreadable, or damaged gzip
        return False
    return len(start) == 4 and start[:3] == bytes([0, 0, UNSIGNED_BYTE]) and 1 <= start[3] <= 4


def read_idx(path: Path) -> np.ndarray:
    """Return the content as an array, uint8."""
    try:
        with _opened(path) as file:
            content = _read(file, path)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"The file cannot be read: {error}.", where=str(path), hint="download it again") from None
    dimensions = content[3]
    head = 4 + 4 * dimensions
    shape = [int.from_bytes(content[i : i + 4]) for i in range(4, head, 4)]
    if len(content) != head + math.prod(shape):
        raise UserError(
            f"The idx file is damaged: its header announces {'×'.join(map(str, shape))} values, but it has "
            f"{max(0, len(content) - head):,}.",
            where=str(path),
            hint="download it again",
        )
    return np.frombuffer(bytearray(content[head:]), dtype=np.uint8).reshape(shape)


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return cast("IO[bytes]", open_gzip(path.open("rb"), str(path))) if packed else path.open("rb")


def _read(file: IO[bytes], path: Path) -> bytes:
    """Return the header and the values that it announces, and one byte more if there is one."""
    head = file.read(4)
    sizes = file.read(4 * head[3])
    promised = math.prod(int.from_bytes(sizes[i : i + 4]) for i in range(0, len(sizes), 4))
    if promised > IDX_FILE.value():
        raise IDX_FILE.exceeded(f"The array ({promised:,} bytes)", str(path))
    return head + sizes + file.read(promised + 1)
