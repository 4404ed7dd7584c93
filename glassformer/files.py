"""Atomic file writes (temporary file, fsync, rename), lock files and messages for file errors."""

from __future__ import annotations

import contextlib
import difflib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from glassformer import operating_system
from glassformer.errors import UserError
from glassformer.limits import JSON_FILE, read_bytes


def cache_folder() -> Path:
    """Return the cache folder of Glassformer."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glassformer"


@contextlib.contextmanager
def atomic_write(path: Path, *, elsewhere: str = "-o") -> Iterator[Path]:
    """Yield a temporary path; on success it replaces `path`, on failure it is removed.

    elsewhere: the command-line option that chooses another path, for the error message.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        with _write_errors(path, elsewhere):  # a device or a pipe cannot be replaced
            yield path
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with _write_errors(path, elsewhere):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            for file in [temporary] if temporary.is_file() else [*temporary.iterdir()]:
                operating_system.flush(file)
            if path.is_dir():
                if temporary.is_file():
                    require_file_path(path)
                shutil.rmtree(path)
            operating_system.replace(temporary, path)
            operating_system.flush(path.parent)
        finally:
            _delete(temporary)


def checksum(path: Path) -> str:
    """Return a checksum of the contents of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def remove(path: Path) -> None:
    """Delete a file or a folder. It is renamed first, so that it never exists in part."""
    gone = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    operating_system.replace(path, gone)
    _delete(gone)


def remove_temporary_files(folder: Path) -> None:
    """Delete temporary files that a killed process left in a folder."""
    for path in folder.glob(".*.tmp"):
        _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class LockHeld(UserError):
    """Raised by `exclusive_lock` if another process holds the lock."""


@contextlib.contextmanager
def exclusive_lock(lock: Path, what: str) -> Iterator[None]:
    """Hold a lock file; raise `LockHeld` if another process does. The lock of a process that dies is released."""
    try:
        held = _locked(lock, wait=False, elsewhere="-o")
    except BlockingIOError:
        raise LockHeld(
            f"Another process is {what} ({lock.read_text(encoding='utf-8').strip() or 'just started'}).",
            where=str(lock.parent),
            hint="wait for it, stop it, or choose another path with -o",
        ) from None
    with held as file:
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        try:
            yield
        finally:
            operating_system.delete_lock_file(lock, file)


@contextlib.contextmanager
def wait_for_lock(lock: Path, *, elsewhere: str = "-o") -> Iterator[None]:
    """Wait until no other process holds a lock file, then hold it."""
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
    """Return the open lock file, locked until it is closed."""
    while True:
        with _write_errors(lock, elsewhere):
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = lock.open("a+", encoding="utf-8")
        try:
            operating_system.lock(file, wait=wait)
            if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                return file
        except FileNotFoundError:  # the lock file was deleted meanwhile: try again
            pass
        except BaseException:
            file.close()
            raise
        file.close()  # it was deleted meanwhile: other processes would lock a new file


class ResumableFile:
    """A text file whose writing can be interrupted and resumed; it gets its final name when it is complete.

    Text up to the last `commit` survives if the process is killed. A later process with the same `recipe` (everything
    that the content depends on) continues after it.
    """

    def __init__(self, path: Path, recipe: object) -> None:
        self.path, self.recipe = path, json.loads(json.dumps(recipe))
        self.lines = 0  # input lines that were committed by an earlier process
        self._part = path.with_name(f".{path.name}.part")
        self._note = path.with_name(f".{path.name}.part.json")

    def __enter__(self) -> ResumableFile:
        with _write_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.lines, size = self._committed()
            self._file = self._part.open("r+b" if self.lines else "w+b")
            self._file.truncate(size)
            self._file.seek(size)
        return self

    def write(self, text: str) -> None:
        with _write_errors(self.path):
            self._file.write(text.encode())

    def commit(self, lines: int) -> None:
        """Make the text so far durable. It is the output of the first `lines` input lines."""
        with _write_errors(self.path):
            self._file.flush()
            operating_system.flush_descriptor(self._file.fileno())
            note = {"recipe": self.recipe, "lines": lines, "bytes": self._file.tell()}
            write_text(self._note, json.dumps(note))

    def __exit__(self, kind: object, *rest: object) -> None:
        self._file.close()
        if kind is None:
            with _write_errors(self.path):
                operating_system.flush(self._part)
                operating_system.replace(self._part, self.path)
                self._note.unlink(missing_ok=True)
        elif not self._note.exists():  # nothing was committed
            self._part.unlink(missing_ok=True)

    def _committed(self) -> tuple[int, int]:
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            lines, size = int(note["lines"]), int(note["bytes"])
            if note["recipe"] == self.recipe and self._part.stat().st_size >= size:
                return lines, size
        except (OSError, ValueError, KeyError, TypeError):  # no record, or a damaged one: start again
            pass
        return 0, 0


def read_json(path: Path, what: str, hint: str) -> Any:
    """Return the content of a JSON file, which may be missing: FileNotFoundError is left to the caller.

    what  names the file in the message, as in "The plan"
    hint  for a damaged file
    """
    try:
        return parse_json(read_bytes(path, JSON_FILE, what).decode("utf-8-sig"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{what} cannot be read: {error.strerror or error}.", where=str(path), hint=hint) from None
    except ValueError as error:
        raise UserError(f"{what} is damaged: {error}.", where=str(path), hint=hint) from None


def parse_json(text: str) -> Any:
    """Parse JSON. ValueError for any damage, also for nesting too deep for Python and for lone surrogates."""
    try:
        content = json.loads(text)
        if "\\ud" in text or "\\uD" in text:  # \ud800 alone is half a character, which no file can hold
            json.dumps(content, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("it contains a lone surrogate (\\ud800 to \\udfff), which is not a character") from None
    return content


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")  # the same bytes on every system


def require_file_path(path: Path) -> None:
    """Raise a `UserError` if an output path is a folder; call it before long computations."""
    if path.is_dir():
        raise UserError("This is a folder, not a file.", where=str(path), hint="name a file with -o")


def not_found(path: Path, kind: str = "file") -> UserError:
    """Return the error for a path that does not exist, with a similar name in its folder as the hint."""
    message, folder = f"There is no {kind} {path}", path.parent
    if str(path) == "-":
        return UserError(message, where="-", hint="for standard input, leave the file out or name /dev/stdin")
    if not folder.is_dir():
        return UserError(message, where=str(path), hint=f"there is no folder {folder} either")
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # the folder may not be listed: suggest no name
        names = []
    if near := difflib.get_close_matches(path.name, names, n=1):
        return UserError(message, where=str(path), hint=f"did you mean {folder / near[0]}?")
    return UserError(message, where=str(path), hint=f"check the name; relative paths start from {Path.cwd()}")


@contextlib.contextmanager
def _write_errors(path: Path, elsewhere: str = "-o") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise write_error(path, error, elsewhere=elsewhere) from error
    except Exception as error:
        # safetensors wraps errors of the operating system
        if number := re.search(r"os error (\d+)", str(error)):
            code = int(number[1])
            raise write_error(path, OSError(code, os.strerror(code)), elsewhere=elsewhere) from error
        raise


def write_error(path: Path, error: OSError, *, elsewhere: str = "-o") -> UserError:
    """Return the `UserError` for a failed write, with a hint for the kind of failure."""
    again = "training continues with --resume" if elsewhere == "-o" else f"or choose another path with {elsewhere}"
    hints = {
        errno.ENOSPC: f"free space on that disk and try again; {again}",
        errno.EDQUOT: f"free space within your quota and try again; {again}",
        errno.EACCES: f"choose a folder with write permission, with {elsewhere}",
        errno.EPERM: f"choose a folder with write permission, with {elsewhere}",
        errno.EFBIG: "the limit on file sizes is too low; see ulimit -f",
        errno.EROFS: f"choose a folder on a writable disk, with {elsewhere}",
        errno.ENOTDIR: f"a part of that path is a file; choose another path with {elsewhere}",
        errno.EEXIST: f"a part of that path is a file; choose another path with {elsewhere}",
    }
    message = f"This path cannot be written: {error.strerror or error}."
    hint = hints.get(error.errno or 0, f"choose another path with {elsewhere}")
    return UserError(message, where=str(path), hint=hint)
