"""Work on all cores, piece by piece: results in order, in constant memory."""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.connection
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import Any, TypeVar

from glassformer.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

WORTH_IT = 4  # pieces; fewer are done before processes would have begun
AHEAD = 3  # pieces for each process that are waiting, being done or not yet collected

_work: Callable[[Any], Any] | None = None  # what a fork inherits


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(work: Callable[[Item], Result], items: Iterable[Item], *, processes: int = 0) -> Iterator[Result]:
    """`map(work, items)`, in one forked process a core where there is enough to do.

    An error is raised where `map` would raise it: whatever `items` does wrong, after the results of those before.
    """
    processes = processes or cores()
    waiting = _until_error(items)
    some = list(islice(waiting, WORTH_IT))
    if processes < 2 or len(some) < WORTH_IT or "fork" not in multiprocessing.get_all_start_methods():
        for item, error in chain(some, waiting):
            if error is not None:
                raise error
            yield work(item)
        return
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(processes, mp_context=fork, initializer=_begin, initargs=(work,)) as pool:
        try:
            yield from _collected(pool, chain(some, waiting), AHEAD * processes)
        except BrokenProcessPool:
            raise UserError(
                "A process that prepared the text was ended from outside.",
                fix="see whether the memory was full (dmesg | grep -i kill), then try again",
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _until_error(items: Iterable[Item]) -> Iterator[tuple[Any, Exception | None]]:
    try:
        for item in items:
            yield item, None
    except Exception as error:  # whatever it is, it is raised again behind the results of the items before it
        yield None, error


def _collected(pool: ProcessPoolExecutor, items: Iterable[tuple[Any, Exception | None]], ahead: int) -> Iterator[Any]:
    jobs: deque[Future[Any]] = deque()
    failed = None
    for item, error in items:
        if error is not None:
            failed = error
            break
        jobs.append(pool.submit(_do, item))
        if len(jobs) >= ahead:
            yield jobs.popleft().result()
    while jobs:
        yield jobs.popleft().result()
    if failed is not None:
        raise failed


def _begin(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads of the parent are not in the fork
    gc.freeze()  # else the collector would touch, and so copy, everything that was imported
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever, and hold the locks that it inherited."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _do(item: Any) -> Any:
    assert _work is not None
    return _work(item)
