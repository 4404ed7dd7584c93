"""The traces that visitors look at: so many of them, and so many bytes, the oldest let go first."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from glassformer.studio.asking import Seen

MOST = 64
MOST_BYTES = 2**29


class NoSuchTrace(Exception):
    """There is no such trace, or it is somebody else's: who asks is not told which."""


@dataclass(frozen=True)
class Kept:
    visitor: str
    seen: Seen
    size: int


class Traces:
    """Traces by an id that cannot be guessed. Each belongs to the visitor who asked for it."""

    def __init__(self, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes(self) -> int:
        return self._bytes

    def keep(self, visitor: str, seen: Seen) -> str:
        """Keeps a trace; what has not been looked at for longest goes. The newest stays, however large."""
        number = secrets.token_urlsafe(16)
        size = sum(tensor.numel() * tensor.element_size() for tensor in seen.trace.tensors.values())
        with self._lock:
            self._kept[number] = Kept(visitor, seen, size)
            self._bytes += size
            while len(self._kept) > 1 and (len(self._kept) > self.most or self._bytes > self.most_bytes):
                _, gone = self._kept.popitem(last=False)
                self._bytes -= gone.size
        return number

    def of(self, visitor: str, number: str) -> Seen:
        with self._lock:
            kept = self._kept.get(number)
            if kept is None or kept.visitor != visitor:
                raise NoSuchTrace
            self._kept.move_to_end(number)
            return kept.seen
