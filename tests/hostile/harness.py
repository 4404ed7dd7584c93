"""Run the real command line on hostile input, in a forked child with bounded memory and time.

Each case gets its own child, so nothing leaks from one case to the next and the peak memory of each is known.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pkgutil
import re
import resource
import shutil
import signal
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import glassformer.cli
from tests import forked

# Commands import modules when they run. Imported here, they are in every child from the start.
for module in (
    *(f"glassformer.cli.{found.name}" for found in pkgutil.iter_modules(glassformer.cli.__path__)),
    "glassformer.inference.shards",
    "glassformer.inference.translator",
    "glassformer.inference.workers",
    "glassformer.interop.huggingface",
    "glassformer.lab.bench",
    "glassformer.lab.ladder",
    "glassformer.lab.pronoun_heads",
    "glassformer.studio.app",
    "glassformer.tasks.metrics",
    "glassformer.training.train",
    "rich.progress",
    "sacrebleu",
):
    importlib.import_module(module)
with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit), pytest.MonkeyPatch.context() as patch:
    patch.setattr(sys, "argv", ["glassformer", "translate"])
    glassformer.cli.main()  # imported to print error messages

ADDRESS_SPACE = 6 * 2**30  # bytes that a child may map beyond what the parent has mapped
RESIDENT = 1200  # MiB that a child may use beyond what the parent uses
CPU_SECONDS = 90  # of a child: a hang that computes
WALL_SECONDS = 600  # of a child: a hang that waits
PAGE = os.sysconf("SC_PAGE_SIZE")

Prepare = Callable[[Path], None]


def nothing(workdir: Path) -> None:
    """Leave the folder as it is."""


@dataclass(frozen=True)
class Case:
    """A command and the input it is given.

    name     unique in the table
    argv     the arguments, or one string that is split as a shell would
    says     parts that the message must contain, in this order
    prepare  changes the folder in which the command runs
    code     2: refused with one message (what, where, hint), and no file changed; 0: odd, but fine
    holds    for code 0: a further condition on the folder and the result
    skip     reason why the case means nothing on this machine
    """

    name: str
    argv: str | list[str]
    says: tuple[str, ...] = ()
    prepare: Prepare = nothing
    stdin: bytes = b""
    code: int = 2
    holds: Callable[[Path, Result], bool] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    closed: tuple[int, ...] = ()  # file descriptors that are closed from the start
    skip: str = ""


@dataclass(frozen=True)
class Result:
    code: int  # negative: the signal that ended the child
    out: str
    err: str
    mebibytes: int  # peak memory beyond the parent's


def run(
    argv: str | list[str],
    folder: Path,
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    closed: tuple[int, ...] = (),
    bounded: bool = True,
) -> Result:
    """Run `glassformer ARGV` in a child whose current folder is `folder`."""
    command = forked.command_line(argv)

    def act() -> None:
        if bounded:
            mapped = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE
            resource.setrlimit(resource.RLIMIT_AS, (mapped + ADDRESS_SPACE, mapped + ADDRESS_SPACE))
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
        command()

    before = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    child = forked.start(act, folder, folder.parent / "streams", stdin=stdin, env=env, closed=closed)
    if child.wait(WALL_SECONDS) is None:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert child.code is not None and child.used is not None
    return Result(child.code, child.out, child.err, child.used.ru_maxrss // 1024 - before // 2**20)


# What must hold of every case --------------------------------


def contents(workdir: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(workdir)): path.read_bytes()
        for path in sorted(workdir.rglob("*"))
        if stat.S_ISREG(path.lstat().st_mode) and path.stat().st_mode & 0o400
    }


def complaint(err: str) -> str:
    """Return the one message of a refusal without boxes and line breaks; it must say what, where and how to fix it."""
    usage = err.lstrip().startswith(("Usage:", "╭─ Error"))
    found = re.findall(r"^error: ", err, re.MULTILINE)
    assert usage or len(found) == 1, err
    message = err if usage else err[err.index("error: ") if err.startswith("error: ") else err.index("\nerror: ") + 1 :]
    assert usage or len(message.splitlines()) <= 3, f"more than what, where and hint: {message}"
    assert usage or re.search(r"\n  (fix|hint): ", message, re.IGNORECASE), f"there is no hint: {message}"
    return " ".join(re.sub(r"[╭╮╰╯│─]", " ", message).split())


def assert_says(message: str, parts: tuple[str, ...]) -> None:
    at = 0
    for part in parts:
        at = message.find(part, at)
        assert at >= 0, f"{part!r} is not said, or not in this order: {message}"


def copy(template: Path, workdir: Path, said: str) -> None:
    """Copy the files of the template, its run, and those of the larger folders that a case mentions."""
    for path in template.iterdir():
        if path.is_file():
            workdir.mkdir(exist_ok=True)
            shutil.copyfile(path, workdir / path.name)
    for path in (template / "run", template / "images", *template.glob("runs/*"), *template.glob("hf/*")):
        name = str(path.relative_to(template))
        if name == "run" or name in said:
            shutil.copytree(path, workdir / name)


def check(case: Case, template: Path, workdir: Path) -> None:
    """Run a case on a copy of the template, and check all assertions."""
    copy(template, workdir, f"{case.argv} {case.stdin[:1000]!r}")
    case.prepare(workdir)
    before = contents(workdir) if case.code == 2 else {}
    result = run(case.argv, workdir, stdin=case.stdin, env=case.env, closed=case.closed)
    assert "Traceback" not in result.err, result.err
    assert result.code == case.code, (result.code, result.out[-2000:], result.err[-4000:])
    assert result.mebibytes < RESIDENT, f"{result.mebibytes} MiB"
    assert not list(workdir.rglob("*.tmp")), "a half-written file was left behind"
    if case.code == 2:
        if 2 not in case.closed:
            assert_says(complaint(result.err), case.says)
        assert result.out == ""
        assert contents(workdir) == before, "a refused command changed files"
    if case.holds is not None:
        assert case.holds(workdir, result), (result.out[-2000:], result.err[-4000:])
