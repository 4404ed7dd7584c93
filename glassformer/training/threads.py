"""Independent tasks on several threads of one process.

By default PyTorch divides each operation among all cores (intra-op parallelism), and they wait for each other after
every operation. Independent tasks use the cores better: the threads rarely wait, because PyTorch releases the lock of
the Python interpreter inside an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch

T = TypeVar("T")


class ThreadPool:
    """Runs tasks at the same time on `threads` cores; the intra-op threads of PyTorch are divided among the tasks.

    With one thread, the tasks run one after the other in the calling thread.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="training") if threads > 1 else None

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results of the tasks, in their order.

        An error of a task is raised after all tasks have ended. Grad mode and autocast are settings of a thread: tasks
        do not inherit them.
        """
        if self._executor is None or len(tasks) < 2:
            return [task() for task in tasks]
        intra_op_threads = max(1, self.threads // len(tasks))
        futures = [self._executor.submit(_run_with, intra_op_threads, task) for task in tasks]
        wait(futures)
        torch.set_num_threads(self.threads)  # the last call sets the number for threads that are started later
        return [future.result() for future in futures]


SINGLE_THREAD = ThreadPool(1)


def _run_with(intra_op_threads: int, task: Callable[[], T]) -> T:
    torch.set_num_threads(intra_op_threads)  # of this thread only
    return task()
