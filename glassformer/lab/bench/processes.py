"""A process measured from outside: how long it ran, and how much memory it and its children held at most."""

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

LOOK_EVERY = 0.1  # seconds
LOOKING = 0.005  # of the time, at most: the system walks through all pages to answer, and the process waits


@dataclass(frozen=True)
class Done:
    output: str
    errors: str
    code: int
    began: float  # by the clock of time.time()
    seconds: float
    peak_megabytes: float


def run(command: list[str], *, threads: int, timeout: float) -> Done:
    """Runs a command with so many threads for its matmuls."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        began, clock, peak = time.time(), time.perf_counter(), 0.0
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)
        try:
            while process.poll() is None:
                looked = time.perf_counter()
                peak = max(peak, megabytes(process.pid))
                if looked - clock > timeout:
                    raise subprocess.TimeoutExpired(command, timeout)
                seldom = (time.perf_counter() - looked) / LOOKING if looked - clock > 1 else 0  # it may end soon
                _wait(process, max(LOOK_EVERY, seldom))
        finally:
            process.kill()
            process.wait()
        seconds = time.perf_counter() - clock
        for stream in (output, errors):
            stream.seek(0)
        return Done(output.read(), errors.read(), process.returncode, began, seconds, peak)


def result_of(done: Done, command: list[str], who: str) -> dict[str, Any]:
    """What a process printed as `RESULT {…}`."""
    lines = [line for line in done.output.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise UserError(
            f"{who} gave no result (exit code {done.code}).",
            where=" ".join(done.errors.strip().splitlines()[-1:]),
            hint=f"run it by itself: {' '.join(command)}",
        )
    result: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
    return result


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):  # it is still running: the caller looks again
        process.wait(seconds)


def megabytes(pid: int) -> float:
    """Memory of a process and its children, where what they share counts once; 0 where the system does not tell."""
    family = list(_family(pid))
    proportional = sum(_kilobytes(f"/proc/{one}/smaps_rollup", "Pss:") for one in family)
    highest = max((_kilobytes(f"/proc/{one}/status", "VmHWM:") for one in family), default=0)  # between two looks
    return max(proportional, highest) / 1024


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [child for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # it has ended
        return
    for child in children:
        yield from _family(int(child))


def _kilobytes(path: str, name: str) -> int:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:  # it has ended, or this is not Linux
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
