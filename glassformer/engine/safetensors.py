"""Read a safetensors file tensor by tensor, as float32, without PyTorch or NumPy.

The `safetensors` package returns arrays of a framework that would have to be imported first.
"""

from __future__ import annotations

import ctypes
import json
import math
import mmap
import sys
from pathlib import Path
from typing import Any

from glassformer.errors import UserError

MAX_HEADER = 100_000_000  # bytes, as in the safetensors package
MAX_DIMENSIONS = 8  # the product of very many sizes would take minutes
BYTES = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8}


class WeightFile:
    """A memory-mapped safetensors file.

    Attributes:
        shapes: the shape of each tensor.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                size = file.seek(0, 2)
                if not 0 < length <= min(MAX_HEADER, size - 8):
                    raise self._damaged("its header is too long or missing")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except FileNotFoundError:
            raise missing_weights(path) from None
        except (OSError, ValueError) as error:  # a folder, a device, or a file that cannot be mapped
            raise self._damaged(str(error)) from None
        try:
            header = json.loads(self._map[8 : 8 + length])
            header.pop("__metadata__", None)
            self._entries = {name: self._entry(entry, 8 + length) for name, entry in header.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._damaged("its header is not that of a safetensors file with floating-point weights") from None
        self.shapes = {name: shape for name, (_, shape, _) in self._entries.items()}

    def floats(self, name: str) -> ctypes.Array[ctypes.c_float]:
        """Return the values of a tensor: a view of the file for aligned float32, a converted copy otherwise."""
        dtype, shape, start = self._entries[name]
        count = math.prod(shape)
        if dtype == "F32" and start % 4 == 0:
            return (ctypes.c_float * count).from_buffer(self._map, start)
        import numpy as np

        raw = np.frombuffer(self._map, np.uint8, count * BYTES[dtype], start)
        if dtype == "BF16":
            values = (raw.view("<u2").astype("<u4") << 16).view("<f4")
        else:
            with np.errstate(over="ignore"):  # beyond float32: infinity, which the engine refuses
                values = raw.view({"F16": "<f2", "F32": "<f4", "F64": "<f8"}[dtype]).astype("<f4")
        return (ctypes.c_float * count).from_buffer_copy(values.tobytes())

    def release(self) -> None:
        """Release the memory of the pages that were read; they are read again when needed."""
        if sys.platform != "win32":
            self._map.madvise(mmap.MADV_DONTNEED)

    def _entry(self, entry: dict[str, Any], data: int) -> tuple[str, tuple[int, ...], int]:
        dtype, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        if len(shape) > MAX_DIMENSIONS or not all(isinstance(n, int) and n >= 0 for n in (*shape, start, end)):
            raise ValueError
        if data + end > len(self._map) or end - start != math.prod(shape) * BYTES[dtype]:
            raise ValueError
        return dtype, shape, data + start

    def _damaged(self, reason: str) -> UserError:
        return damaged_weights(self.path, reason)


def missing_weights(path: Path) -> UserError:
    hint = "finish training with --resume, or copy the folder again"
    return UserError("The weights are missing.", where=str(path), hint=hint)


def damaged_weights(path: Path, reason: object) -> UserError:
    hint = "copy the file again; pickled weights (.pt, .bin) are not loaded because they can run code"
    return UserError(f"The weights are damaged or not in safetensors format: {reason}.", where=str(path), hint=hint)
