"""Run a process and measure its time and the peak memory of it and its children."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import UserError

POLL_SECONDS = 0.1
POLL_SHARE = 0.005  # maximal share of the time, as reading the memory use stops the process


@dataclass(frozen=True)
class ProcessResult:
    """The output, exit code, time and peak memory of a process."""

    output: str
    errors: str
    code: int
    began: float  # time.time() at the start
    seconds: float
    peak_megabytes: float


def environment(threads: int) -> dict[str, str]:
    """Return the environment of a measured process with this number of OpenMP threads."""
    return os.environ | {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}


def run(command: list[str], *, threads: int, timeout: float) -> ProcessResult:
    """Run a command with this number of OpenMP threads."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        began, clock, peak = time.time(), time.perf_counter(), 0.0
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment(threads))
        try:
            while process.poll() is None:
                polled = time.perf_counter()
                peak = max(peak, megabytes(process.pid))
                if polled - clock > timeout:
                    raise subprocess.TimeoutExpired(command, timeout)
                pause = (time.perf_counter() - polled) / POLL_SHARE if polled - clock > 1 else 0
                _wait(process, max(POLL_SECONDS, pause))
        finally:
            process.kill()
            process.wait()
        seconds = time.perf_counter() - clock
        for stream in (output, errors):
            stream.seek(0)
        return ProcessResult(output.read(), errors.read(), process.returncode, began, seconds, peak)


def result_of(done: ProcessResult, command: list[str], who: str) -> dict[str, Any]:
    """Return the result that a process printed as `RESULT {…}`."""
    lines = [line for line in done.output.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise UserError(
            f"{who} printed no result (exit code {done.code}).",
            where=" ".join(done.errors.strip().splitlines()[-1:]),
            hint=f"run it separately: {' '.join(command)}",
        )
    result: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
    return result


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):  # still running: the caller polls again
        process.wait(seconds)


def megabytes(pid: int) -> float:
    """Return the memory of a process and its children, shared memory counted once; 0 if /proc is not available."""
    process_ids = list(_process_tree(pid))
    proportional = sum(_kilobytes(f"/proc/{one}/smaps_rollup", "Pss:") for one in process_ids)
    highest = max(
        (_kilobytes(f"/proc/{one}/status", "VmHWM:") for one in process_ids), default=0
    )  # peaks between two polls
    return max(proportional, highest) / 1024


def _process_tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [child for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # the process has ended
        return
    for child in children:
        yield from _process_tree(int(child))


def _kilobytes(path: str, name: str) -> int:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:  # the process has ended, or this is not Linux
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
