"""What was made of a corpus, kept by its content: made once, by whoever comes first, and found by all others."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.process_pool import cores
from glassformer.errors import UserError
from glassformer.files import atomic_write, cache_folder, try_lock, wait_for_lock, write_text

FORMAT = 1  # of all that is kept here; another number is another key
ABOUT = "about.json"  # written last: the sizes of all other files, and what they hold
ELSEWHERE = "data.cache=FOLDER"
SETTLED = 2_000_000_000  # nanoseconds after which a change of a file surely shows in its time


@dataclass(frozen=True)
class Kept:
    name: str
    megabytes: float


class Cache:
    """A folder of folders, each named by a key of all that its content depends on."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(folder).expanduser() if folder else cache_folder() / "corpora"

    def kept(self, kind: str, parts: object, make: Callable[[Path], dict[str, Any]]) -> tuple[Path, dict[str, Any]]:
        """The folder for these parts and what is said about it; made by `make(folder)` if it is not there whole.

        Of several processes that want it, one makes it and the others wait.
        """
        path = self.folder / f"{kind}-{key(FORMAT, parts)}"
        about = _whole(path)
        if about is None:
            with wait_for_lock(self.folder / f".{path.name}.lock", elsewhere=ELSEWHERE):
                about = _whole(path)
                if about is None:
                    self._make(path, make)
                    about = _whole(path)
        if about is None:
            raise UserError("What was just written cannot be read.", where=str(path), hint=f"try {ELSEWHERE}")
        return path, about

    def _make(self, path: Path, make: Callable[[Path], dict[str, Any]]) -> None:
        for left in self.folder.glob(f".{path.name}.*.tmp"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        if path.is_file():  # a folder that is damaged is replaced as it is
            path.unlink()
        with atomic_write(path, elsewhere=ELSEWHERE) as beside:
            beside.mkdir()
            about = make(beside)
            sizes = {file.name: file.stat().st_size for file in beside.iterdir()}
            (beside / ABOUT).write_text(json.dumps({"sizes": sizes} | about, ensure_ascii=False), encoding="utf-8")

    def digests(self, files: Iterable[Path]) -> list[str]:
        """Of the content of each file. Remembered, so that a large file is read once for as long as it stays as it is.

        A pipe can be read only once: its digest is a new one each time.
        """
        memory = self.folder / "digests.json"
        known = _read(memory) or {}
        paths = [Path(os.path.abspath(file)) for file in files]
        states = {path: _state(path) for path in paths}
        wanted = [path for path, state in states.items() if state and known.get(str(path), [])[:-1] != state]
        # Taken from what was read at first: another process may clear the cache meanwhile.
        found = {path: known[str(path)][-1] for path, state in states.items() if state and path not in wanted}
        with ThreadPoolExecutor(cores()) as pool:
            fresh = dict(zip(wanted, pool.map(_digest, wanted), strict=True))
        settled = [path for path in wanted if states[path] == _state(path) and _age(path) > SETTLED]
        if settled:
            with wait_for_lock(self.folder / ".digests.lock", elsewhere=ELSEWHERE):
                known = (_read(memory) or {}) | {str(path): [*states[path], fresh[path]] for path in settled}
                write_text(memory, json.dumps(known, indent=0))
        return [(found | fresh).get(path) or os.urandom(16).hex() for path in paths]

    def unchanged(self, files: Iterable[Path]) -> Callable[[], bool]:
        """To be asked after files were read: whether they are still as they were when this was called."""
        before = {path: _state(path) for path in files}
        return lambda: all(_state(path) == state for path, state in before.items())

    def entries(self) -> list[Kept]:
        """What is kept, largest first."""
        found = []
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if path.is_dir():
                found.append(Kept(path.name, sum(map(_size, path.rglob("*"))) / 1e6))
        return sorted(found, key=lambda entry: -entry.megabytes)

    def clear(self) -> list[Kept]:
        """Delete what is kept and return it. What another process is making stays, and so do lock files.

        A run that reads from the cache keeps its open files.
        """
        removed = []
        for entry in self.entries():
            made = entry.name  # of something half made: .NAME.PROCESS.tmp
            if made.startswith(".") and made.endswith(".tmp"):
                made = made.removeprefix(".").rsplit(".", 2)[0]
            with try_lock(self.folder / f".{made}.lock", elsewhere=ELSEWHERE) as free:
                if free:
                    shutil.rmtree(self.folder / entry.name, ignore_errors=True)
                    removed.append(entry)
        (self.folder / "digests.json").unlink(missing_ok=True)
        return removed


def key(*parts: object) -> str:
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=12).hexdigest()


def _whole(path: Path) -> dict[str, Any] | None:
    """What is said about a folder; None if it is not there, or not as it was written."""
    about = _read(path / ABOUT)
    try:
        sizes = about["sizes"] if about else None
        whole = sizes and all((path / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, KeyError, AttributeError):  # a file is gone, or the note is not as it was written
        return None
    return about if whole else None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there, or damaged: prepared again
        return None
    return content if isinstance(content, dict) else None


def _state(path: Path) -> list[int]:
    """Size, time of change and number of a file; nothing for what is no ordinary file."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ino] if stat.S_ISREG(found.st_mode) else []


def _size(path: Path) -> int:
    try:
        found = path.stat()
    except FileNotFoundError:  # another process has deleted it since it was listed
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _age(path: Path) -> int:
    return time.time_ns() - path.stat().st_mtime_ns


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
