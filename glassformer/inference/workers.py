"""Batch translation on all cores: one single-threaded process per core.

Decoder steps are small; two threads on one step wait for each other more than they help. Processes that each
translate lines of their own do not. Where forking is safe they share the weights; elsewhere each loads the run.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice
from pathlib import Path

import torch

from glassformer import machine
from glassformer.data.process_pool import process_context, start_method
from glassformer.inference.translator import LINES_AT_ONCE, Precision, Sampling, Translation, Translator, load
from glassformer.settings import DecodeSettings

LINES_A_JOB = 128  # at most
JOBS_A_WORKER = 4  # at least, in each window: so that all end at about the same time
WORTH_IT = 64  # lines; fewer are translated before workers would have begun

Collect = Callable[[], list[Translation]]

_translator: Translator | None = None  # a fork inherits it; a spawned process loads it


def translate_stream(
    translator: Translator,
    lines: Iterable[str],
    *,
    workers: int,
    beam: int | None = None,
    sampling: Sampling | None = None,
    first: int = 0,
) -> Iterator[Translation]:
    """Like `Translator.stream`: every line in order, in constant memory, the same output for any number of workers."""
    waiting = iter(lines)
    some = list(islice(waiting, WORTH_IT))
    everything = chain(some, waiting)
    on_cpu = next(translator.model.parameters()).device.type == "cpu"
    forks = start_method() == "fork"
    if workers < 2 or len(some) < WORTH_IT or not on_cpu or not (forks or translator.loaded_from):
        yield from translator.stream(everything, beam=beam, sampling=sampling, first=first)
        return
    global _translator
    _translator = translator
    origin = None if forks or translator.loaded_from is None else (*translator.loaded_from, translator.settings)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a fork must not meet threads that it did not inherit
    gc.collect()
    machine.release_memory()
    gc.freeze()  # else each fork's collector would touch, and so copy, everything that was imported
    try:
        with ProcessPoolExecutor(
            workers, mp_context=process_context(), initializer=_start_worker, initargs=(origin,)
        ) as pool:
            yield from _dealt_out(pool, everything, first, workers, beam, sampling)
    finally:
        gc.unfreeze()
        torch.set_num_threads(threads)
        _translator = None


def _start_worker(origin: tuple[Path, Precision, DecodeSettings] | None) -> None:
    """Load the run of a translator that was not inherited."""
    global _translator
    if origin is not None:
        torch.set_num_threads(1)
        path, precision, settings = origin
        _translator = load(path, precision=precision, device="cpu")
        _translator.settings = settings


def _dealt_out(
    pool: ProcessPoolExecutor,
    lines: Iterable[str],
    number: int,
    workers: int,
    beam: int | None,
    sampling: Sampling | None,
) -> Iterator[Translation]:
    """Window by window; the next is dealt out before the last is collected, so that no worker waits."""

    def deal(first: int, window: list[str]) -> Collect:
        longest_first = sorted(range(len(window)), key=lambda i: -len(window[i]))
        size = min(LINES_A_JOB, -(-len(window) // (JOBS_A_WORKER * workers)))
        jobs = {}
        for start in range(0, len(window), size):
            rows = longest_first[start : start + size]
            numbers = [first + row for row in rows]
            jobs[pool.submit(_translate, [window[row] for row in rows], numbers, beam, sampling)] = rows
        return lambda: _in_order(jobs)

    before: Collect | None = None
    for first, window in _windows(lines, number, LINES_AT_ONCE):
        after = deal(first, window)
        if before is not None:
            yield from before()
        before = after
    if before is not None:
        yield from before()


def _windows(lines: Iterable[str], first: int, size: int) -> Iterator[tuple[int, list[str]]]:
    """Lines, so many at a time, with the number of the first."""
    waiting = iter(lines)
    while window := list(islice(waiting, size)):
        yield first, window
        first += len(window)


def _in_order(jobs: dict[Future[list[Translation]], list[int]]) -> list[Translation]:
    found = {row: one for job, rows in jobs.items() for row, one in zip(rows, job.result(), strict=True)}
    return [found[row] for row in sorted(found)]


def _translate(lines: list[str], numbers: list[int], beam: int | None, sampling: Sampling | None) -> list[Translation]:
    assert _translator is not None
    return _translator.translate(lines, beam=beam, sampling=sampling, numbers=numbers)
