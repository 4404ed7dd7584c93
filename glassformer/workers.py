"""Batch translation on all cores: one single-threaded process a core.

Decoder steps are small; two threads on one step wait for each other more than they help. Processes that each
translate lines of their own do not, and as forks they share the weights.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice

import torch

from glassformer.translator import Sampling, Translation, Translator

LINES_A_JOB = 256  # enough to batch by length, few enough to deal out evenly
WORTH_IT = 64  # lines; fewer are translated before workers would have begun

_translator: Translator | None = None  # what a fork inherits


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def translate_stream(
    translator: Translator,
    lines: Iterable[str],
    *,
    workers: int,
    beam: int | None = None,
    sampling: Sampling | None = None,
) -> Iterator[Translation]:
    """Like `Translator.stream`: every line in order, in constant memory, the same output for any number of workers."""
    waiting = iter(lines)
    first = list(islice(waiting, WORTH_IT))
    everything = chain(first, waiting)
    on_cpu = next(translator.model.parameters()).device.type == "cpu"
    if workers < 2 or len(first) < WORTH_IT or not on_cpu or "fork" not in multiprocessing.get_all_start_methods():
        yield from translator.stream(everything, beam=beam, sampling=sampling)
        return
    global _translator
    _translator = translator
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a fork must not meet threads that it did not inherit
    try:
        yield from _dealt_out(everything, workers, beam, sampling)
    finally:
        torch.set_num_threads(threads)
        _translator = None


def _dealt_out(
    lines: Iterable[str], workers: int, beam: int | None, sampling: Sampling | None
) -> Iterator[Translation]:
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        jobs: deque[Future[list[Translation]]] = deque()
        for number, chunk in enumerate(_chunks(lines)):
            jobs.append(pool.submit(_translate, chunk, number * LINES_A_JOB, beam, sampling))
            if len(jobs) > 2 * workers:
                yield from jobs.popleft().result()
        while jobs:
            yield from jobs.popleft().result()


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(lines)
    while chunk := list(islice(waiting, LINES_A_JOB)):
        yield chunk


def _translate(lines: list[str], first_line: int, beam: int | None, sampling: Sampling | None) -> list[Translation]:
    assert _translator is not None
    return _translator.translate(lines, beam=beam, sampling=sampling, first_line=first_line)
