"""The cache of traces: bounded by number and by bytes, and what is looked at stays."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from glassformer.glass.trace import Trace
from glassformer.studio.model_store import LoadedRun
from glassformer.studio.trace_store import TraceNotFound, TraceStore
from glassformer.studio.tracing import TraceRequest, TraceResult


def seen(numbers: int) -> TraceResult:
    trace = Trace([], [], [], {"x": torch.zeros(numbers)})
    return TraceResult(TraceRequest("run", "text"), cast("LoadedRun", None), "", trace, "alone")


def there(traces: TraceStore, *numbers: str) -> list[bool]:
    def kept(number: str) -> bool:
        try:
            traces.get("me", number)
        except TraceNotFound:
            return False
        return True

    return [kept(number) for number in numbers]


def test_the_oldest_goes_when_there_are_too_many() -> None:
    traces = TraceStore(max_traces=3)
    numbers = [traces.add("me", seen(1)) for _ in range(5)]
    assert len(traces) == 3
    assert there(traces, *numbers) == [False, False, True, True, True]


def test_the_oldest_goes_when_they_are_too_large() -> None:
    traces = TraceStore(max_bytes=1000)
    numbers = [traces.add("me", seen(100)) for _ in range(4)]  # 400 bytes each
    assert traces.bytes == 800
    assert there(traces, *numbers) == [False, False, True, True]


def test_what_is_looked_at_stays() -> None:
    traces = TraceStore(max_traces=2)
    first, second = (traces.add("me", seen(1)) for _ in range(2))
    traces.get("me", first)
    third = traces.add("me", seen(1))
    assert there(traces, first, second, third) == [True, False, True]


def test_the_newest_stays_however_large() -> None:
    traces = TraceStore(max_bytes=10)
    number = traces.add("me", seen(1000))
    assert there(traces, number) == [True]
    assert traces.bytes == 4000
    traces.add("me", seen(1))
    assert traces.bytes == 4


def test_ids_cannot_be_guessed_and_are_nobody_elses() -> None:
    traces = TraceStore()
    numbers: list[Any] = [traces.add("me", seen(1)) for _ in range(50)]
    assert len(set(numbers)) == 50 and all(len(number) >= 20 for number in numbers)
    with pytest.raises(TraceNotFound):
        traces.get("you", numbers[0])
