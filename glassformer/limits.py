"""Limits on the size of untrusted input. Every limit can be raised with an environment variable.

A file is read only up to its limit, so a decompression bomb or an endless device is refused before it fills the memory.
"""

from __future__ import annotations

import gzip
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from glassformer.errors import UserError

MIB = 2**20


@dataclass(frozen=True)
class Limit:
    """An upper bound with a default, which the environment variable `variable` overrides."""

    variable: str
    default: int
    unit: str

    def value(self) -> int:
        """Return the limit in effect."""
        given = os.environ.get(self.variable)
        if given is None:
            return self.default
        if not given.isascii() or not given.isdigit() or int(given) == 0:
            raise UserError(
                f"{self.variable} must be a positive whole number, not {given!r}.",
                where=f"environment variable {self.variable}",
                hint=f"unset it, or set it to a number ({self.unit}); the default is {self.default:,}",
            )
        return int(given)

    def exceeded(self, what: str, where: str) -> UserError:
        """Return the error for input that is larger than the limit."""
        hint = f"check that this is the right file; to raise the limit, set {self.variable} ({self.unit})"
        return UserError(f"{what} is larger than the limit of {self.value():,} {self.unit}.", where=where, hint=hint)


LINE = Limit("GLASSFORMER_MAX_LINE", 128 * MIB, "bytes")
JSON_FILE = Limit("GLASSFORMER_MAX_JSON", 128 * MIB, "bytes")
SETTINGS_FILE = Limit("GLASSFORMER_MAX_SETTINGS", 4 * MIB, "bytes")
IMAGE_FILE = Limit("GLASSFORMER_MAX_IMAGE", 128 * MIB, "bytes")
IMAGE_PIXELS = Limit("GLASSFORMER_MAX_PIXELS", 50_000_000, "pixels")
IDX_FILE = Limit("GLASSFORMER_MAX_IDX", 2048 * MIB, "bytes")
GZIP_RATIO = Limit("GLASSFORMER_MAX_GZIP_RATIO", 200, "bytes for each compressed byte")
VOCABULARY = Limit("GLASSFORMER_MAX_VOCABULARY", 2_000_000, "entries")

GZIP_CHECKED_FROM = 8 * MIB  # decompressed bytes; smaller output is harmless at any ratio


def read_bytes(path: Path, limit: Limit, what: str) -> bytes:
    """Return the content of a file; refuse it without reading more than the limit."""
    most = limit.value()
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise limit.exceeded(what, str(path))
    return content


def open_gzip(file: IO[bytes], name: str) -> io.BufferedReader:
    """Return a decompressed stream of a gzip file that refuses output far larger than its input. It closes the file."""
    return io.BufferedReader(_Inflated(file, name), buffer_size=2**17)


class _Inflated(io.RawIOBase):
    """A decompressed stream with a bounded compression ratio: text has about 4, repetitive text 100, a bomb 1,000."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name, self._most = file, name, GZIP_RATIO.value()
        self._inner = gzip.GzipFile(fileobj=file)
        self._written = 0

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        count = self._inner.readinto(buffer)
        self._written += count
        if self._written > GZIP_CHECKED_FROM and self._written > self._most * self._file.tell():
            raise GZIP_RATIO.exceeded("The decompressed data", self._name)
        return count
