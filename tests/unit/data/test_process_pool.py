"""Work in several processes looks like work in one: the same results, in order, and the same first error."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassformer.data.process_pool import AHEAD, each, start_method
from glassformer.errors import UserError


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
        raise UserError("later", where="the end", hint="none")

    def work(n: int) -> int:
        if n >= 7:
            raise UserError(f"line {n} is bad", where=f"file:{n}", hint="mend it")
        return n

    results = each(work, items(), processes=processes)
    with pytest.raises(UserError) as caught:
        for expected in range(9):
            assert next(results) == expected
    assert (caught.value.message, caught.value.where, caught.value.hint) == ("line 7 is bad", "file:7", "mend it")


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


def square(n: int) -> tuple[int, int]:
    return n * n, os.getpid()


def refuse(n: int) -> int:
    raise UserError(f"line {n} is bad", where=f"file:{n}", hint="mend it")


@pytest.fixture
def other_thread() -> Iterator[None]:
    """A second thread in this process, which a fork would not have."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    yield
    done.set()
    thread.join()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems never fork")
def test_a_process_with_one_thread_forks() -> None:
    assert start_method() == "fork"


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_spawn(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert start_method() == "spawn"


@pytest.mark.usefixtures("other_thread")
def test_spawned_processes_give_the_same_results() -> None:
    assert start_method() == "spawn"
    found = list(each(square, range(50), processes=2))
    assert [result for result, _ in found] == [n * n for n in range(50)]
    assert os.getpid() not in {process for _, process in found}
    with pytest.raises(UserError, match="line 0 is bad"):
        list(each(refuse, range(9), processes=2))


# What a person may write: no function, no `if __name__ == "__main__"`.
SCRIPT = """
import threading
print("once", flush=True)
from glassformer.data import process_pool as parallel
threading.Thread(target=threading.Event().wait, daemon=True).start()
assert parallel.start_method() == "spawn"
print(list(parallel.each(str.upper, "abcdef", processes=2)))
"""


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["once", "['A', 'B', 'C', 'D', 'E', 'F']"]
