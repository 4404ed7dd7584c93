"""The recorded traces of all visitors, limited in number and bytes; the least recently used is dropped first."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from glassformer.studio.tracing import TraceResult

MAX_TRACES = 64
MAX_BYTES = 2**29


class TraceNotFound(Exception):
    """The trace does not exist or belongs to another visitor; the response does not reveal which."""


@dataclass(frozen=True)
class StoredTrace:
    visitor: str
    result: TraceResult
    size: int


class TraceStore:
    """Traces by a random id. Each belongs to the visitor who requested it."""

    def __init__(self, *, max_traces: int = MAX_TRACES, max_bytes: int = MAX_BYTES) -> None:
        self.max_traces, self.max_bytes = max_traces, max_bytes
        self._stored: OrderedDict[str, StoredTrace] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def bytes(self) -> int:
        return self._bytes

    def add(self, visitor: str, result: TraceResult) -> str:
        """Store a trace and return its id. The newest is kept even if it exceeds the limit by itself."""
        trace_id = secrets.token_urlsafe(16)
        size = sum(tensor.numel() * tensor.element_size() for tensor in result.trace.tensors.values())
        with self._lock:
            self._stored[trace_id] = StoredTrace(visitor, result, size)
            self._bytes += size
            while len(self._stored) > 1 and (len(self._stored) > self.max_traces or self._bytes > self.max_bytes):
                _, dropped = self._stored.popitem(last=False)
                self._bytes -= dropped.size
        return trace_id

    def get(self, visitor: str, trace_id: str) -> TraceResult:
        with self._lock:
            stored = self._stored.get(trace_id)
            if stored is None or stored.visitor != visitor:
                raise TraceNotFound
            self._stored.move_to_end(trace_id)
            return stored.result
