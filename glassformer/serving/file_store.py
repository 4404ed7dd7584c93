"""Translated files that wait to be downloaded, in memory, under names that cannot be guessed."""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

MAX_BYTES = 64 * 2**20  # of all files; the oldest is dropped
SECONDS = 3600


class StoredFile(NamedTuple):
    name: str
    content: bytes
    expires: float


class FileStore:
    """Keeps files for an hour."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._files: OrderedDict[str, StoredFile] = OrderedDict()
        self._clock = clock

    def add(self, name: str, content: bytes) -> str:
        """Store a file and return the name under which it can be downloaded once or often."""
        safe = re.sub(r"[^\w.-]", "_", name.rpartition("/")[2])[-80:].lstrip(".") or "file"
        token = f"{secrets.token_urlsafe(24)}.{safe}"
        self._files[token] = StoredFile(safe, content, self._clock() + SECONDS)
        while sum(len(file.content) for file in self._files.values()) > MAX_BYTES:
            self._files.popitem(last=False)
        return token

    def get(self, token: str) -> StoredFile | None:
        for name in [name for name, file in self._files.items() if file.expires < self._clock()]:
            del self._files[name]
        return self._files.get(token)

    def close(self) -> None:
        self._files.clear()
