"""Metrics in the format of Prometheus."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters of the HTTP layer, and the numbers that the pool reports."""

    def __init__(self, pool_stats: Callable[[], dict[str, Any]]) -> None:
        self._registry = CollectorRegistry()
        named: dict[str, Any] = {"namespace": "glassformer", "registry": self._registry}
        self.requests = Counter("requests", "Finished requests", ["route", "method", "status"], **named)
        self.seconds = Histogram("request_seconds", "Duration of requests", ["route"], buckets=SECONDS, **named)
        self.running = Gauge("requests_running", "Requests that are being handled", **named)
        self.refused = Counter("requests_refused", "Requests refused before they were handled", ["reason"], **named)
        self.disconnected = Counter("clients_gone", "Requests whose client disconnected", **named)
        self.sentences = Counter("sentences", "Sentences translated", ["model"], **named)
        self.tokens = Counter("tokens", "Tokens read and written by models", ["model", "side"], **named)
        self.characters = Counter("characters", "Characters of the texts of requests", **named)
        self._registry.register(_PoolCollector(pool_stats))

    def render(self) -> bytes:
        return generate_latest(self._registry)


class _PoolCollector:
    """The numbers of `Pool.stats()` as gauges; a list of dictionaries, such as the workers, has one value per entry."""

    def __init__(self, stats: Callable[[], dict[str, Any]]) -> None:
        self._stats = stats

    def describe(self) -> list[Metric]:
        return []  # the names are known when the pool runs

    def collect(self) -> Iterator[Metric]:
        for name, value in self._stats().items():
            metric_name = "glassformer_pool_" + re.sub(r"\W", "_", name)
            if isinstance(value, list):
                for field in value[0] if value else ():
                    family = GaugeMetricFamily(f"{metric_name}_{field}", f"Pool: {name}, {field}", labels=["number"])
                    for number, entry in enumerate(value):
                        family.add_metric([str(number)], float(entry[field]))
                    yield family
            else:
                yield GaugeMetricFamily(metric_name, f"Pool: {name}", value=float(value))
