"""`parallel_map` equals `map`: the same results in order, and the same first error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassformer.data import process_pool
from glassformer.data.process_pool import PENDING_PER_PROCESS, parallel_map, start_method
from glassformer.errors import UserError


def test_results_come_in_order_from_other_processes() -> None:
    found = list(parallel_map(lambda n: (n * n, os.getpid()), range(50), processes=3))
    assert [square for square, _ in found] == [n * n for n in range(50)]
    assert os.getpid() not in {process for _, process in found}


def test_few_items_are_processed_without_workers() -> None:
    assert set(parallel_map(lambda _: os.getpid(), range(3), processes=3)) == {os.getpid()}


def test_items_are_read_lazily() -> None:
    asked: list[int] = []

    def items() -> Iterator[int]:
        for n in range(100):
            asked.append(n)
            yield n

    results = parallel_map(lambda n: n, items(), processes=2)
    assert [next(results) for _ in range(10)] == list(range(10))
    assert len(asked) <= 10 + 2 * PENDING_PER_PROCESS
    results.close()


@pytest.mark.parametrize("processes", [1, 3])
def test_the_first_error_is_raised(processes: int) -> None:
    def items() -> Iterator[int]:
        yield from range(9)
        raise UserError("later", where="the end", hint="none")

    def work(n: int) -> int:
        if n >= 7:
            raise UserError(f"line {n} is bad", where=f"file:{n}", hint="mend it")
        return n

    results = parallel_map(work, items(), processes=processes)
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
        for result in parallel_map(lambda n: n, items(), processes=processes):
            found.append(result)
    assert found == list(range(8))


def test_a_killed_worker_process_is_reported() -> None:
    with pytest.raises(UserError, match="was killed"):
        list(parallel_map(lambda n: os._exit(3), range(9), processes=2))


def square(n: int) -> tuple[int, int]:
    return n * n, os.getpid()


def refuse(n: int) -> int:
    raise UserError(f"line {n} is bad", where=f"file:{n}", hint="mend it")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems never fork")
def test_linux_forks() -> None:
    assert start_method() == "fork"


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_spawn(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert start_method() == "spawn"


def test_spawned_processes_give_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pool, "start_method", lambda: "spawn")
    found = list(parallel_map(square, range(50), processes=2))
    assert [result for result, _ in found] == [n * n for n in range(50)]
    assert os.getpid() not in {process for _, process in found}
    with pytest.raises(UserError, match="line 0 is bad"):
        list(parallel_map(refuse, range(9), processes=2))


# A script without functions and without `if __name__ == "__main__"`.
SCRIPT = """
print("once", flush=True)
from glassformer.data import process_pool
process_pool.start_method = lambda: "spawn"
print(list(process_pool.parallel_map(str.upper, "abcdef", processes=2)))
"""


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["once", "['A', 'B', 'C', 'D', 'E', 'F']"]
