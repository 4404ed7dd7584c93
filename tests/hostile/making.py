"""Steps that prepare the folder of a case: each returns a function of the folder."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from harness import Prepare
from safetensors.torch import load_file, save_file

CANARY = "the-pickle-ran"


def write(name: str, content: bytes | str) -> Prepare:
    def prepare(workdir: Path) -> None:
        (workdir / name).parent.mkdir(parents=True, exist_ok=True)
        (workdir / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return prepare


def write_json(name: str, content: Any) -> Prepare:
    return write(name, json.dumps(content))


def both(*steps: Prepare) -> Prepare:
    def prepare(workdir: Path) -> None:
        for step in steps:
            step(workdir)

    return prepare


def lines(name: str, change: Callable[[list[str]], list[str]]) -> Prepare:
    def prepare(workdir: Path) -> None:
        old = (workdir / name).read_text(encoding="utf-8").splitlines()
        (workdir / name).write_text("".join(f"{line}\n" for line in change(old)), encoding="utf-8")

    return prepare


def remove(name: str) -> Prepare:
    return lambda workdir: (workdir / name).unlink()


def folder(name: str) -> Prepare:
    def prepare(workdir: Path) -> None:
        (workdir / name).unlink(missing_ok=True)
        (workdir / name).mkdir()

    return prepare


def changed(name: str, change: Callable[[bytes], bytes]) -> Prepare:
    return lambda workdir: (workdir / name).write_bytes(change((workdir / name).read_bytes())) and None


def changed_json(name: str, change: Callable[[Any], Any]) -> Prepare:
    """`change` alters the content in place, or returns another one."""

    def prepare(workdir: Path) -> None:
        content = json.loads((workdir / name).read_text(encoding="utf-8"))
        new = change(content)
        (workdir / name).write_text(json.dumps(content if new is None else new), encoding="utf-8")

    return prepare


def replaced(name: str, old: str, new: str) -> Prepare:
    def prepare(workdir: Path) -> None:
        text = (workdir / name).read_text(encoding="utf-8")
        assert old in text, text
        (workdir / name).write_text(text.replace(old, new), encoding="utf-8")

    return prepare


def halved(name: str) -> Prepare:
    return changed(name, lambda old: old[: len(old) // 2])


def linked(name: str, to: str) -> Prepare:
    def prepare(workdir: Path) -> None:
        (workdir / name).unlink(missing_ok=True)
        (workdir / name).symlink_to(to)

    return prepare


def unreadable(name: str) -> Prepare:
    def prepare(workdir: Path) -> None:
        (workdir / name).write_text("hello\n")
        (workdir / name).chmod(0)

    return prepare


def tensors(name: str, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Prepare:
    def prepare(workdir: Path) -> None:
        save_file(change(load_file(workdir / name)), workdir / name, metadata={"format": "pt"})

    return prepare


class Malice:
    """A pickle that runs a command when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {CANARY}",)


def zip_archive(name: str) -> Prepare:
    def prepare(workdir: Path) -> None:
        with zipfile.ZipFile(workdir / name, "w") as archive:
            archive.writestr("inside.txt", "hello\n" * 99)

    return prepare


PICKLE = pickle.dumps(Malice())
BOMB = gzip.compress(b"\0" * (64 * 2**20), compresslevel=1)  # NUL bytes: refused after the first of them
LETTERS_BOMB = gzip.compress(b"a" * (32 * 2**20), compresslevel=9)  # one line of text
LINES_BOMB = gzip.compress(b"a b\n" * (4 * 2**20), compresslevel=9)
DEEP = "[" * 200_000
HALF_GZ = gzip.compress(os.urandom(5000))[:3000]


def png(width: int, height: int, *, colour: int = 2) -> bytes:
    """A black PNG. The pixels of a large one are cut off after a few rows: its size alone is reason to refuse it."""
    depth = {0: 1, 2: 3, 6: 4}[colour]
    data = zlib.compress((b"\0" * (1 + width * depth)) * min(height, 64))
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, (b"IHDR", b"IDAT", b"IEND"), (header, data, b"")))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def idx(sizes: tuple[int, ...], content: bytes) -> bytes:
    return bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4) for size in sizes) + content
