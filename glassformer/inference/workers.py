"""Translation of many lines on all cores: one single-threaded worker per core.

Decoder steps are small: two threads on one step spend more time on synchronization than they save. The native engine
runs in threads of this process. PyTorch runs in processes: forked ones share the weights; where forking is not safe,
each process loads the run.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.decoding import Sampling
from glassformer.inference.search_engine import NativeEngine, TorchEngine
from glassformer.inference.translator import STREAM_LINES, Translation, Translator, load_translator
from glassformer.settings import DecodeSettings

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

MAX_JOB_LINES = 128
MIN_JOBS_PER_WORKER = 4  # per window, so that all workers finish at about the same time
MIN_LINES = 64  # with fewer lines, starting processes takes longer than translating

Collect = Callable[[], list[Translation]]
Job = Callable[[list[str], list[int], int | None, Sampling | None], list[Translation]]
Origin = tuple[Path, tuple[Path, ...], DecodeSettings]  # run folder, further members of an ensemble, settings

_translator: Translator | None = None  # inherited by a forked process, loaded by a spawned one


def translate_stream(
    translator: Translator,
    lines: Iterable[str],
    *,
    workers: int,
    beam: int | None = None,
    sampling: Sampling | None = None,
    first: int = 0,
) -> Iterator[Translation]:
    """Translate like `Translator.stream`, with the same output for any number of workers."""
    waiting = iter(lines)
    native = isinstance(translator.engine, NativeEngine)
    head = list(islice(waiting, 2 if native else MIN_LINES))
    everything = chain(head, waiting)
    if workers < 2 or len(head) < (2 if native else MIN_LINES) or not (native or _can_have_processes(translator)):
        yield from translator.stream(everything, beam=beam, sampling=sampling, first=first)
        return
    with _threads(translator, workers) if native else _processes(translator, workers) as (pool, job):
        yield from _translate_windows(pool, job, everything, first, workers, beam, sampling)


@contextmanager
def _threads(translator: Translator, workers: int) -> Iterator[tuple[Executor, Job]]:
    def job(lines: list[str], numbers: list[int], beam: int | None, sampling: Sampling | None) -> list[Translation]:
        return translator.translate(lines, beam=beam, sampling=sampling, numbers=numbers)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:
        try:
            yield pool, job
        finally:
            pool.shutdown(cancel_futures=True)


def _can_have_processes(translator: Translator) -> bool:
    from glassformer.data.process_pool import start_method

    engine = translator.engine
    on_cpu = isinstance(engine, TorchEngine) and engine.device.type == "cpu"
    return on_cpu and (start_method() == "fork" or translator.loaded_from is not None)


@contextmanager
def _processes(translator: Translator, workers: int) -> Iterator[tuple[Executor, Job]]:
    import torch

    from glassformer import machine
    from glassformer.data.process_pool import process_pool, start_method

    global _translator
    _translator = translator
    origin = None
    if start_method() != "fork" and translator.loaded_from is not None:
        origin = translator.loaded_from, translator.ensemble, translator.settings
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads are not inherited by a fork
    gc.collect()
    machine.release_memory()
    gc.freeze()  # otherwise each fork's garbage collector would touch, and so copy, all inherited pages
    try:
        with process_pool(workers, _start_process, origin) as pool:
            yield pool, _translate
    finally:
        gc.unfreeze()
        torch.set_num_threads(threads)
        _translator = None


def _start_process(origin: Origin | None) -> None:
    """Load the run, if the translator was not inherited."""
    global _translator
    if origin is not None:
        import torch

        torch.set_num_threads(1)
        path, ensemble, settings = origin
        _translator = load_translator(path, device="cpu", engine="torch", ensemble=ensemble)
        _translator.settings = settings


def _translate(lines: list[str], numbers: list[int], beam: int | None, sampling: Sampling | None) -> list[Translation]:
    assert _translator is not None
    return _translator.translate(lines, beam=beam, sampling=sampling, numbers=numbers)


def _translate_windows(
    pool: Executor,
    job: Job,
    lines: Iterable[str],
    number: int,
    workers: int,
    beam: int | None,
    sampling: Sampling | None,
) -> Iterator[Translation]:
    """Translate window by window; a window is submitted before the previous one is collected, so no worker waits."""

    def submit(first: int, window: list[str]) -> Collect:
        longest_first = sorted(range(len(window)), key=lambda i: -len(window[i]))
        size = min(MAX_JOB_LINES, -(-len(window) // (MIN_JOBS_PER_WORKER * workers)))
        jobs = {}
        for start in range(0, len(window), size):
            rows = longest_first[start : start + size]
            numbers = [first + row for row in rows]
            jobs[pool.submit(job, [window[row] for row in rows], numbers, beam, sampling)] = rows
        return lambda: _in_order(jobs)

    previous: Collect | None = None
    for first, window in _windows(lines, number, STREAM_LINES):
        current = submit(first, window)
        if previous is not None:
            yield from previous()
        previous = current
    if previous is not None:
        yield from previous()


def _windows(lines: Iterable[str], first: int, size: int) -> Iterator[tuple[int, list[str]]]:
    """Yield windows of `size` lines, each with the number of its first line."""
    waiting = iter(lines)
    while window := list(islice(waiting, size)):
        yield first, window
        first += len(window)


def _in_order(jobs: dict[Future[list[Translation]], list[int]]) -> list[Translation]:
    found = {row: one for job, rows in jobs.items() for row, one in zip(rows, job.result(), strict=True)}
    return [found[row] for row in sorted(found)]
