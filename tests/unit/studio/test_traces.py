"""The cache of traces: bounded by number and by bytes, and what is looked at stays."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from glassformer.glass.trace import Trace
from glassformer.studio.asking import Asked, Seen
from glassformer.studio.shelf import Opened
from glassformer.studio.traces import NoSuchTrace, Traces


def seen(numbers: int) -> Seen:
    trace = Trace([], [], [], {"x": torch.zeros(numbers)})
    return Seen(Asked("run", "text"), cast("Opened", None), "", trace, "alone")


def there(traces: Traces, *numbers: str) -> list[bool]:
    def kept(number: str) -> bool:
        try:
            traces.of("me", number)
        except NoSuchTrace:
            return False
        return True

    return [kept(number) for number in numbers]


def test_the_oldest_goes_when_there_are_too_many() -> None:
    traces = Traces(most=3)
    numbers = [traces.keep("me", seen(1)) for _ in range(5)]
    assert len(traces) == 3
    assert there(traces, *numbers) == [False, False, True, True, True]


def test_the_oldest_goes_when_they_are_too_large() -> None:
    traces = Traces(most_bytes=1000)
    numbers = [traces.keep("me", seen(100)) for _ in range(4)]  # 400 bytes each
    assert traces.bytes == 800
    assert there(traces, *numbers) == [False, False, True, True]


def test_what_is_looked_at_stays() -> None:
    traces = Traces(most=2)
    first, second = (traces.keep("me", seen(1)) for _ in range(2))
    traces.of("me", first)
    third = traces.keep("me", seen(1))
    assert there(traces, first, second, third) == [True, False, True]


def test_the_newest_stays_however_large() -> None:
    traces = Traces(most_bytes=10)
    number = traces.keep("me", seen(1000))
    assert there(traces, number) == [True]
    assert traces.bytes == 4000
    traces.keep("me", seen(1))
    assert traces.bytes == 4


def test_ids_cannot_be_guessed_and_are_nobody_elses() -> None:
    traces = Traces()
    numbers: list[Any] = [traces.keep("me", seen(1)) for _ in range(50)]
    assert len(set(numbers)) == 50 and all(len(number) >= 20 for number in numbers)
    with pytest.raises(NoSuchTrace):
        traces.of("you", numbers[0])
