"""Independent tasks on several threads of one process.

By default PyTorch divides each operation among all cores (intra-op parallelism), and they wait for each other after
every operation. Independent tasks use the cores better: the threads rarely wait, because PyTorch releases the lock of
the Python interpreter inside an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TypeVar

import torch

T = TypeVar("T")


class ThreadPool:
    """Runs tasks at the same time on the calling thread and `threads` − 1 others.

    The intra-op threads of PyTorch are divided among the tasks. With one thread, tasks run one after the other.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._executor = ThreadPoolExecutor(threads - 1, thread_name_prefix="training") if threads > 1 else None

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results of the tasks, in their order.

        An error of a task is raised when no thread runs a task any more. Grad mode and autocast are settings of a
        thread: tasks do not inherit them.
        """
        if self._executor is None or len(tasks) < 2:
            return [task() for task in tasks]
        results: dict[int, T] = {}
        work = partial(_work, iter(enumerate(tasks)), results, max(1, self.threads // len(tasks)))
        others = [self._executor.submit(work) for _ in range(min(self.threads, len(tasks)) - 1)]
        try:
            work()
        finally:
            wait(others)
            torch.set_num_threads(self.threads)  # of this thread, and the default of threads that are started later
        for other in others:
            other.result()  # raises its error
        return [results[number] for number in range(len(tasks))]


SINGLE_THREAD = ThreadPool(1)


def _work(tasks: Iterator[tuple[int, Callable[[], T]]], results: dict[int, T], intra_op_threads: int) -> None:
    """Run tasks that no other thread has taken, until there are none."""
    torch.set_num_threads(intra_op_threads)  # of this thread only
    for number, task in tasks:
        results[number] = task()
