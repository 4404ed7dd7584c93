"""Run code in forked children of the test process.

Starting Python and PyTorch takes seconds; a fork of a process that has imported them takes milliseconds. A child has
its own current folder, environment, standard streams and memory, and may be killed, as a process that was started anew.
"""

from __future__ import annotations

import gc
import io
import os
import resource
import shlex
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.cli import main

Action = Callable[[], object]


@dataclass
class Child:
    """A forked process, and the files that its standard streams are connected to."""

    pid: int
    streams: list[Path]
    code: int | None = None  # negative: the signal that ended it
    used: resource.struct_rusage | None = field(default=None, repr=False)

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self.code is None:
            found, status, used = os.wait4(self.pid, os.WNOHANG)
            if found:
                self.code, self.used = os.waitstatus_to_exitcode(status), used
        return self.code

    def wait(self, seconds: float = float("inf")) -> int | None:
        """Wait so long at most, and return the exit code, or None if it still runs."""
        end = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        return self.code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    @property
    def out(self) -> str:
        return self.streams[1].read_text(encoding="utf-8", errors="replace")

    @property
    def err(self) -> str:
        return self.streams[2].read_text(encoding="utf-8", errors="replace")


def command_line(arguments: str | Sequence[str]) -> Action:
    """Return the action `glassformer ARGUMENTS`; one string is split as a shell would."""

    def act() -> None:
        sys.argv = ["glassformer", *(shlex.split(arguments) if isinstance(arguments, str) else arguments)]
        main()

    return act


def start(
    act: Action,
    folder: Path,
    streams: Path,
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    closed: tuple[int, ...] = (),
) -> Child:
    """Start a child in a current folder; its standard streams are files of the folder `streams`.

    closed  file descriptors that are closed from the start
    """
    streams.mkdir(exist_ok=True, parents=True)
    files = [streams / name for name in ("stdin", "stdout", "stderr")]
    for file, content in zip(files, (stdin, b"", b""), strict=True):
        file.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of any fork of a process with threads
        pid = os.fork()
        if pid == 0:
            _become(act, folder, files, env or {}, closed)
    return Child(pid, files)


def _become(act: Action, folder: Path, files: list[Path], env: Mapping[str, str], closed: tuple[int, ...]) -> None:
    """In the child: act and exit. Never returns."""
    code = 1
    try:
        gc.freeze()  # the parent's objects: looking through them would copy their memory
        os.chdir(folder)
        os.environ.update({"TOKENIZERS_PARALLELISM": "false", "RUST_BACKTRACE": "0", **env})
        for number, path in enumerate(files):
            opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(opened, number)
            os.close(opened)
        for number in closed:
            os.close(number)
        sys.stdin, sys.stdout, sys.stderr = (  # type: ignore[assignment]
            None if number in closed else _stream(number, mode) for number, mode in enumerate(("r", "w", "w"))
        )
        act()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        if sys.stderr is not None:
            traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)


def _stream(number: int, mode: str) -> io.TextIOWrapper:
    raw = io.FileIO(number, mode, closefd=False)
    raw.name = ("<stdin>", "<stdout>", "<stderr>")[number]
    buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, encoding="utf-8", line_buffering=mode == "w")
