"""Files that appear whole or not at all: written beside their place, flushed to the disk, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from glassformer.errors import UserError


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Gives a path beside `path` to write to; on success it takes its place, on failure it is removed."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with _explained(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield beside
            for file in [beside] if beside.is_file() else [*beside.iterdir()]:
                _flush(file)
            if path.is_dir():
                shutil.rmtree(path)
            os.replace(beside, path)
            _flush(path.parent)
        finally:
            if beside.is_dir():
                shutil.rmtree(beside, ignore_errors=True)
            else:
                beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with writing(path) as beside:
        beside.write_text(text, encoding="utf-8")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error
    except Exception as error:
        # safetensors wraps the system's error in one of its own
        if "os error 28" in str(error):
            raise cannot_write(path, OSError(errno.ENOSPC, "No space left on device")) from error
        raise


def cannot_write(path: Path, error: OSError) -> UserError:
    fixes = {
        errno.ENOSPC: "make room on that disk, then go on with --resume",
        errno.EDQUOT: "make room within your quota, then go on with --resume",
        errno.EACCES: "choose a folder that you may write to, with -o",
        errno.EPERM: "choose a folder that you may write to, with -o",
        errno.EROFS: "choose a folder on a disk that can be written, with -o",
        errno.ENOTDIR: "a part of that path is a file; choose another with -o",
        errno.EEXIST: "a part of that path is a file; choose another with -o",
    }
    what = f"The file cannot be written: {error.strerror or error}."
    return UserError(what, where=str(path), fix=fixes.get(error.errno or 0, "choose another place with -o"))
