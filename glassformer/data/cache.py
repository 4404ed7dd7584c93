"""The cache of prepared corpora, addressed by content. Each entry is made once and shared by all processes."""

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

from glassformer.errors import UserError
from glassformer.files import atomic_write, cache_folder, try_lock, wait_for_lock, write_text
from glassformer.machine import cores

CACHE_FORMAT = 1  # part of every key: increase it if the layout of entries changes
INDEX_FILE = "about.json"  # written last: the sizes of all other files, and their description
ELSEWHERE = "data.cache=FOLDER"
SETTLED = 2_000_000_000  # nanoseconds: resolution of modification times, with a margin


@dataclass(frozen=True)
class CacheEntry:
    """An entry of the cache and its size."""

    name: str
    megabytes: float


class Cache:
    """A folder with one subfolder per entry, named by a hash of everything that its content depends on."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(folder).expanduser() if folder else cache_folder() / "corpora"

    def get_or_create(
        self, kind: str, parts: object, make: Callable[[Path], dict[str, Any]]
    ) -> tuple[Path, dict[str, Any]]:
        """Return the folder of an entry and its index, made by `make(folder)` if it is missing or damaged.

        If several processes need it, one makes it and the others wait.
        """
        path = self.folder / f"{kind}-{cache_key(CACHE_FORMAT, parts)}"
        about = _read_index(path)
        if about is None:
            with wait_for_lock(self.folder / f".{path.name}.lock", elsewhere=ELSEWHERE):
                about = _read_index(path)
                if about is None:
                    self._make(path, make)
                    about = _read_index(path)
        if about is None:
            hint = f"use a cache on another disk: {ELSEWHERE}"
            raise UserError("The cache entry cannot be read after writing it.", where=str(path), hint=hint)
        return path, about

    def _make(self, path: Path, make: Callable[[Path], dict[str, Any]]) -> None:
        for left in self.folder.glob(f".{path.name}.*.tmp"):  # left by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        if path.is_file():  # `atomic_write` replaces folders only
            path.unlink()
        with atomic_write(path, elsewhere=ELSEWHERE) as folder:
            folder.mkdir()
            about = make(folder)
            sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
            (folder / INDEX_FILE).write_text(json.dumps({"sizes": sizes} | about, ensure_ascii=False), encoding="utf-8")

    def digests(self, files: Iterable[Path]) -> list[str]:
        """Return a hash of the content of each file. A file is read again only after it has changed.

        A pipe can be read only once; its hash is random.
        """
        memory = self.folder / "digests.json"
        known = _read(memory) or {}
        paths = [Path(os.path.abspath(file)) for file in files]
        states = {path: _state(path) for path in paths}
        wanted = [path for path, state in states.items() if state and known.get(str(path), [])[:-1] != state]
        # From the copy read above: another process may clear the cache meanwhile.
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
        """Return a function that tells whether the files are still as they were at this call."""
        before = {path: _state(path) for path in files}
        return lambda: all(_state(path) == state for path, state in before.items())

    def entries(self) -> list[CacheEntry]:
        """Return all entries, largest first."""
        found = []
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if path.is_dir():
                found.append(CacheEntry(path.name, sum(map(_size, path.rglob("*"))) / 1e6))
        return sorted(found, key=lambda entry: -entry.megabytes)

    def clear(self) -> list[CacheEntry]:
        """Delete all entries and return them, except entries that another process is making, and lock files.

        A run that reads from the cache keeps its open files.
        """
        removed = []
        for entry in self.entries():
            made = entry.name  # unfinished: .NAME.PROCESS.tmp
            if made.startswith(".") and made.endswith(".tmp"):
                made = made.removeprefix(".").rsplit(".", 2)[0]
            with try_lock(self.folder / f".{made}.lock", elsewhere=ELSEWHERE) as free:
                if free:
                    shutil.rmtree(self.folder / entry.name, ignore_errors=True)
                    removed.append(entry)
        (self.folder / "digests.json").unlink(missing_ok=True)
        return removed


def cache_key(*parts: object) -> str:
    """Return the hash of values that can be written as JSON."""
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=12).hexdigest()


def _read_index(path: Path) -> dict[str, Any] | None:
    """Return the index of an entry; None if the entry is missing or incomplete."""
    about = _read(path / INDEX_FILE)
    try:
        sizes = about["sizes"] if about else None
        whole = sizes and all((path / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, KeyError, AttributeError):  # a file is missing, or the index is damaged
        return None
    return about if whole else None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # missing or damaged: the entry is made again
        return None
    return content if isinstance(content, dict) else None


def _state(path: Path) -> list[int]:
    """Return size, modification time and inode of a regular file; an empty list for anything else."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ino] if stat.S_ISREG(found.st_mode) else []


def _size(path: Path) -> int:
    try:
        found = path.stat()
    except FileNotFoundError:  # another process deleted it after it was listed
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _age(path: Path) -> int:
    return time.time_ns() - path.stat().st_mtime_ns


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
