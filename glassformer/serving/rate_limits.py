"""Rate limits: a token bucket per key or address."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MAX_BUCKETS = 20_000  # bounds the memory; the bucket that was used least recently is dropped


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


class RateLimiter:
    """Allows each client a number of requests per minute, in bursts of up to that number."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait(self, client: str, per_minute: int) -> float:
        """Count a request. Return 0 if it is allowed, or the seconds until the next one is."""
        if per_minute <= 0:
            return 0.0
        now = self._clock()
        bucket = self._buckets.pop(client, None) or _Bucket(per_minute, now)
        self._buckets[client] = bucket
        while len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        bucket.tokens = min(per_minute, bucket.tokens + (now - bucket.filled_at) * per_minute / 60)
        bucket.filled_at = now
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0.0
        return (1 - bucket.tokens) * 60 / per_minute
