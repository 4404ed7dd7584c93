"""Ordered parallel map over processes, in constant memory."""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.connection
import multiprocessing.context
import os
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import Any, TypeVar

from glassformer.errors import UserError
from glassformer.machine import cores
from glassformer.operating_system import limit_processes

Item = TypeVar("Item")
Result = TypeVar("Result")

MIN_ITEMS = 4  # with fewer items, starting processes takes longer than the work
PENDING_PER_PROCESS = 3  # items that are queued, in work, or finished but not yet yielded

_work: Callable[[Any], Any] | None = None  # set in each worker process


def start_method() -> str:
    """Return "fork", which shares memory with this process, on Linux, and "spawn" elsewhere.

    CUDA does not work in a fork. The system libraries of macOS start threads of their own, which a fork does not copy;
    Windows has no fork. The workers use nothing that a thread of this process may have locked, such as the terminal.
    """
    torch = sys.modules.get("torch")  # CUDA is not initialized if PyTorch was never imported
    uses_cuda = torch is not None and torch.cuda.is_initialized()
    return "fork" if sys.platform == "linux" and not uses_cuda else "spawn"


def process_pool(processes: int, initializer: Callable[..., None], *arguments: Any) -> ProcessPoolExecutor:
    """Return worker processes, started by `start_method`; each calls `initializer(*arguments)` first."""
    context = multiprocessing.get_context("fork") if start_method() == "fork" else _SpawnContext()
    return ProcessPoolExecutor(
        limit_processes(processes), mp_context=context, initializer=initializer, initargs=arguments
    )


class _SpawnProcess(multiprocessing.context.SpawnProcess):
    """A spawned process that does not import `__main__`.

    Otherwise a script that calls this package without an `if __name__ == "__main__"` guard would run again there.
    """

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            return multiprocessing.context.SpawnProcess._Popen(process_obj)
        finally:
            sys.modules["__main__"] = main


class _SpawnContext(multiprocessing.context.SpawnContext):
    Process = _SpawnProcess


def parallel_map(work: Callable[[Item], Result], items: Iterable[Item], *, processes: int = 0) -> Iterator[Result]:
    """Return `map(work, items)`, computed in one process per core if there are enough items.

    `work` must be picklable: processes are only forked where that is safe (see `start_method`).

    Errors are raised where `map` would raise them: an error of the iterator `items` after all earlier results.
    """
    processes = processes or cores()
    waiting = _until_error(items)
    some = list(islice(waiting, MIN_ITEMS))
    if processes < 2 or len(some) < MIN_ITEMS:
        for item, error in chain(some, waiting):
            if error is not None:
                raise error
            yield work(item)
        return
    with process_pool(processes, _init_worker, work) as pool:
        try:
            yield from _ordered_results(pool, chain(some, waiting), PENDING_PER_PROCESS * processes)
        except BrokenProcessPool:
            hint = "check whether the machine ran out of memory (dmesg | grep -i kill), then run the command again"
            raise UserError("A process that prepared the text was killed.", hint=hint) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _until_error(items: Iterable[Item]) -> Iterator[tuple[Any, Exception | None]]:
    try:
        for item in items:
            yield item, None
    except Exception as error:  # any error: raised again after the results of the earlier items
        yield None, error


def _ordered_results(
    pool: ProcessPoolExecutor, items: Iterable[tuple[Any, Exception | None]], ahead: int
) -> Iterator[Any]:
    jobs: deque[Future[Any]] = deque()
    failed = None
    for item, error in items:
        if error is not None:
            failed = error
            break
        jobs.append(pool.submit(_run, item))
        if len(jobs) >= ahead:
            yield jobs.popleft().result()
    while jobs:
        yield jobs.popleft().result()
    if failed is not None:
        raise failed


def _init_worker(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the threads of the parent do not exist in a fork
    gc.freeze()  # otherwise garbage collection would copy the memory shared with the parent
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Exit if the parent is killed; otherwise the process would wait forever and hold its inherited locks."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _run(item: Any) -> Any:
    assert _work is not None
    return _work(item)
