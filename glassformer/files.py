"""Files that appear whole or not at all: written beside their place, flushed to the disk, then renamed."""

from __future__ import annotations

import contextlib
import difflib
import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from glassformer.errors import UserError


def cache_folder() -> Path:
    """Where things are kept that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glassformer"


@contextlib.contextmanager
def atomic_write(path: Path, *, elsewhere: str = "-o") -> Iterator[Path]:
    """Gives a path beside `path` to write to; on success it takes its place, on failure it is removed.

    elsewhere  what a person says to have it written to another place
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        with _explained(path, elsewhere):  # a device or a pipe is written to, not replaced
            yield path
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with _explained(path, elsewhere):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield beside
            for file in [beside] if beside.is_file() else [*beside.iterdir()]:
                _flush(file)
            if path.is_dir():
                if beside.is_file():
                    require_file_path(path)
                shutil.rmtree(path)
            os.replace(beside, path)
            _flush(path.parent)
        finally:
            _delete(beside)


def remove(path: Path) -> None:
    """Deletes a file or a folder. It is gone from its place at once, whatever happens while its files are deleted."""
    gone = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    os.replace(path, gone)
    _delete(gone)


def remove_temporary_files(folder: Path) -> None:
    """Deletes what a process that was killed left half written."""
    for path in folder.glob(".*.tmp"):
        _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class LockHeld(UserError):
    """Another process has the lock."""


@contextlib.contextmanager
def exclusive_lock(lock: Path, what: str) -> Iterator[None]:
    """Holds a lock file for this process; refuses where another holds it. A process that dies lets go."""
    try:
        held = _locked(lock, wait=False, elsewhere="-o")
    except BlockingIOError:
        raise LockHeld(
            f"Another process is {what} ({lock.read_text(encoding='utf-8').strip() or 'just begun'}).",
            where=str(lock.parent),
            hint="wait for it, stop it, or choose another place with -o",
        ) from None
    with held as file:
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


@contextlib.contextmanager
def wait_for_lock(lock: Path, *, elsewhere: str = "-o") -> Iterator[None]:
    """Holds a lock file for this process, after waiting for whoever holds it. A process that dies lets go."""
    with _locked(lock, wait=True, elsewhere=elsewhere):
        yield


@contextlib.contextmanager
def try_lock(lock: Path, *, elsewhere: str = "-o") -> Iterator[bool]:
    """Hold a lock file and yield True, or yield False at once if another process holds it."""
    try:
        held = _locked(lock, wait=False, elsewhere=elsewhere)
    except BlockingIOError:
        yield False
        return
    with held:
        yield True


def _locked(lock: Path, *, wait: bool, elsewhere: str) -> IO[str]:
    """The lock file, open and held until it is closed; where there are no locks, just open."""
    while True:
        with _explained(lock, elsewhere):
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = lock.open("a+", encoding="utf-8")
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                return file
        except ModuleNotFoundError:  # not on this system
            return file
        except FileNotFoundError:  # the lock file was deleted meanwhile: try again
            pass
        except BaseException:
            file.close()
            raise
        file.close()  # whoever held it has deleted it since: others would lock a new one


class ResumableFile:
    """A text file that is written over several lives of a process, and gets its name when it is complete.

    What was kept of it stays, to the line, if the process is killed; a later one with the same `recipe` (all that the
    content depends on) goes on behind it.
    """

    def __init__(self, path: Path, recipe: object) -> None:
        self.path, self.recipe = path, json.loads(json.dumps(recipe))
        self.lines = 0  # that are there already
        self._part = path.with_name(f".{path.name}.part")
        self._note = path.with_name(f".{path.name}.part.json")

    def __enter__(self) -> ResumableFile:
        with _explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.lines, size = self._kept()
            self._file = self._part.open("r+b" if self.lines else "w+b")
            self._file.truncate(size)
            self._file.seek(size)
        return self

    def write(self, text: str) -> None:
        with _explained(self.path):
            self._file.write(text.encode())

    def keep(self, lines: int) -> None:
        """What was written so far answers so many lines, and stays."""
        with _explained(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            note = {"recipe": self.recipe, "lines": lines, "bytes": self._file.tell()}
            write_text(self._note, json.dumps(note))

    def __exit__(self, kind: object, *rest: object) -> None:
        self._file.close()
        if kind is None:
            with _explained(self.path):
                _flush(self._part)
                os.replace(self._part, self.path)
                self._note.unlink(missing_ok=True)
        elif not self._note.exists():  # nothing of it was kept
            self._part.unlink(missing_ok=True)

    def _kept(self) -> tuple[int, int]:
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            lines, size = int(note["lines"]), int(note["bytes"])
            if note["recipe"] == self.recipe and self._part.stat().st_size >= size:
                return lines, size
        except (OSError, ValueError, KeyError, TypeError):  # no note, or a damaged one: begin anew
            pass
        return 0, 0


def write_text(path: Path, text: str) -> None:
    with atomic_write(path) as beside:
        beside.write_text(text, encoding="utf-8")


def require_file_path(path: Path) -> None:
    """To be asked before long work whose result goes to a file."""
    if path.is_dir():
        raise UserError("This is a folder; a file is needed.", where=str(path), hint="name a file, with -o")


def not_found(path: Path, kind: str = "file") -> UserError:
    """What to say of a path that does not exist: the nearest name beside it, or what else is wrong with it."""
    what, folder = f"There is no {kind} {path}", path.parent
    if not folder.is_dir():
        return UserError(what, where=str(path), hint=f"there is no folder {folder} either")
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # a folder that may not be listed: then no name is suggested
        names = []
    if near := difflib.get_close_matches(path.name, names, n=1):
        return UserError(what, where=str(path), hint=f"did you mean {folder / near[0]}?")
    return UserError(what, where=str(path), hint=f"check the name; relative names start from {Path.cwd()}")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _explained(path: Path, elsewhere: str = "-o") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise write_error(path, error, elsewhere=elsewhere) from error
    except Exception as error:
        # safetensors wraps the system's error in one of its own
        if number := re.search(r"os error (\d+)", str(error)):
            code = int(number[1])
            raise write_error(path, OSError(code, os.strerror(code)), elsewhere=elsewhere) from error
        raise


def write_error(path: Path, error: OSError, *, elsewhere: str = "-o") -> UserError:
    again = "training goes on with --resume" if elsewhere == "-o" else f"or choose another place with {elsewhere}"
    fixes = {
        errno.ENOSPC: f"make room on that disk and try again; {again}",
        errno.EDQUOT: f"make room within your quota and try again; {again}",
        errno.EACCES: f"choose a folder that you may write to, with {elsewhere}",
        errno.EPERM: f"choose a folder that you may write to, with {elsewhere}",
        errno.EFBIG: "your limit on the size of a file is too low for this; see ulimit -f",
        errno.EROFS: f"choose a folder on a disk that can be written, with {elsewhere}",
        errno.ENOTDIR: f"a part of that path is a file; choose another with {elsewhere}",
        errno.EEXIST: f"a part of that path is a file; choose another with {elsewhere}",
    }
    what = f"This place cannot be written to: {error.strerror or error}."
    return UserError(what, where=str(path), hint=fixes.get(error.errno or 0, f"choose another place with {elsewhere}"))
