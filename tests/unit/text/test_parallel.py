"""Work in several processes looks like work in one: the same results, in order, and the same first error."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from glassformer.errors import UserError
from glassformer.text.parallel import AHEAD, each


def test_results_come_in_order_from_other_processes() -> None:
    found = list(each(lambda n: (n * n, os.getpid()), range(50), processes=3))
    assert [square for square, _ in found] == [n * n for n in range(50)]
    assert os.getpid() not in {process for _, process in found}


def test_little_work_stays_here() -> None:
    assert set(each(lambda _: os.getpid(), range(3), processes=3)) == {os.getpid()}


def test_no_more_is_read_than_is_worked_on() -> None:
    asked: list[int] = []

    def items() -> Iterator[int]:
        for n in range(100):
            asked.append(n)
            yield n

    results = each(lambda n: n, items(), processes=2)
    assert [next(results) for _ in range(10)] == list(range(10))
    assert len(asked) <= 10 + 2 * AHEAD
    results.close()


@pytest.mark.parametrize("processes", [1, 3])
def test_the_first_error_is_the_one_that_is_told(processes: int) -> None:
    def items() -> Iterator[int]:
        yield from range(9)
        raise UserError("later", where="the end", fix="none")

    def work(n: int) -> int:
        if n >= 7:
            raise UserError(f"line {n} is bad", where=f"file:{n}", fix="mend it")
        return n

    results = each(work, items(), processes=processes)
    with pytest.raises(UserError) as caught:
        for expected in range(9):
            assert next(results) == expected
    assert (caught.value.what, caught.value.where, caught.value.fix) == ("line 7 is bad", "file:7", "mend it")


@pytest.mark.parametrize("processes", [1, 3])
def test_an_error_of_the_reader_comes_after_the_results_before_it(processes: int) -> None:
    def items() -> Iterator[int]:
        yield from range(8)
        raise UserError("no more")

    found = []
    with pytest.raises(UserError, match="no more"):
        for result in each(lambda n: n, items(), processes=processes):
            found.append(result)
    assert found == list(range(8))


def test_a_process_that_is_ended_is_reported() -> None:
    with pytest.raises(UserError, match="ended from outside"):
        list(each(lambda n: os._exit(3), range(9), processes=2))
