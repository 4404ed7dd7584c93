"""Reading lines of text from files and streams: decompression, decoding, normalization.

Text that would decode to wrong characters is refused with its file and line.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import shlex
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from glassformer.errors import UserError
from glassformer.files import not_found, parse_json
from glassformer.limits import JSON_FILE, LINE, open_gzip

PathLike = str | os.PathLike[str]

BUFFER = 2**17  # bytes that are read at once

WORD_MARK = "\u2581"  # ▁ marks the start of a word in the vocabulary, so text must not contain it

ACCEPTED_FILES = (
    "give two aligned files (train.en train.de), one .tsv (source<TAB>target), one .jsonl "
    '({"source": …, "target": …} per line), .csv, .tmx, .xliff, .po, .parquet, or shards of these '
    '(a.en b.en a.de b.de, or "*.en" "*.de"); text files may be compressed as .gz'
)

# First bytes of common binary formats. Formats that contain NUL bytes need no entry: NUL is refused everywhere.
_SIGNATURES = {
    b"PK\x03\x04": "a ZIP archive (.zip, .docx, .xlsx, .pt)",
    b"%PDF-": "a PDF document",
    **{bytes([0x80, protocol]): "a Python pickle" for protocol in (2, 3, 4, 5)},
    b"\x1f\x8b": "gzip data",
    b"\xfd7zXZ": "xz data",
    b"BZh91AY": "bzip2 data",
    b"\x28\xb5\x2f\xfd": "zstd data",
    b"PAR1": "a Parquet table",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
}

# All whitespace of str.split() except the space and the line feed.
UNUSUAL_SPACES = (
    "\t\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def normalize_line(text: str) -> str:
    """Return text in the form used for comparison, training and translation. Idempotent.

    NFC (composed Hangul and accents), each run of whitespace replaced by one space, none at the ends, and `▁`
    replaced by `_`, because the vocabulary marks word starts with `▁`.
    """
    return " ".join(unicodedata.normalize("NFC", text).split()).replace(WORD_MARK, "_")


def read_lines(source: PathLike | IO[str] | IO[bytes]) -> Iterator[str]:
    r"""Yield the lines of a file or an open stream, without line ends (\n or \r\n) and otherwise unchanged.

    Only \n ends a line: U+2028, \x85, \x0b and a lone \r are part of the text, as in wc, sed and other tools that
    align corpora. Empty lines are kept, a byte-order mark is removed. A stream is read as bytes if possible (as for
    sys.stdin), so that the locale has no effect, and is not closed.
    """
    if not isinstance(source, str | os.PathLike):
        name = str(getattr(source, "name", "the given text"))
        name = "standard input" if name == "<stdin>" else name
        yield from decode_lines(_bounded(getattr(source, "buffer", source), name), name)
        return
    yield from decode_lines(read_raw_lines(Path(source)), str(source))


def read_raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file as bytes, decompressed if it is gzip data. Raise UserError if it cannot be read."""
    check_file(path)
    try:
        with ExitStack() as stack:
            file = stack.enter_context(path.open("rb"))
            start = file.peek(2)[:2]
            if start == b"\x1f\x8b":
                file = stack.enter_context(open_gzip(file, str(path)))
            elif start and path.suffix.lower() == ".gz":
                hint = "rename it without .gz, or compress it with gzip"
                raise UserError(f"{path} is named .gz but is not gzip data", where=str(path), hint=hint)
            yield from _bounded(file, str(path))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        hint = f"download or compress it again; to test it: gzip -t {shlex.quote(str(path))}"
        raise UserError(f"{path} is a damaged .gz file: {error}", where=str(path), hint=hint) from None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None


class _BoundedLines(io.RawIOBase):
    """A binary stream that refuses a line longer than the limit while it is read.

    A long line with NUL bytes ends there: it is binary data or a device without end, and is refused as such.
    """

    def __init__(self, inner: Any, name: str) -> None:
        self._inner, self._name, self._longest = inner, name, LINE.value()
        self._size = 0  # bytes since the last line feed
        self._binary = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._binary:
            return 0
        count: int = self._inner.readinto1(buffer)
        content = bytes(memoryview(buffer)[:count])
        end = content.rfind(b"\n")
        self._size = self._size + count if end < 0 else count - end - 1
        if self._size > self._longest:
            raise LINE.exceeded("A line", self._name)
        self._binary = self._size > BUFFER and b"\0" in content
        return count


def _bounded(file: Any, name: str) -> Any:
    """Bound the lines of a binary stream, which are split in C; any other input is already in memory."""
    if not isinstance(file, io.BufferedIOBase):
        return file
    return io.BufferedReader(_BoundedLines(file, name), buffer_size=BUFFER)


def read_json(path: Path, *, hint: str) -> Any:
    """Return the content of a JSON file, which may be compressed. `hint` describes the expected format."""
    most, lines, size = JSON_FILE.value(), list[str](), 0
    for line in read_lines(path):
        lines.append(line)
        size += len(line) + 1
        if size > most:
            raise JSON_FILE.exceeded("The file", str(path))
    try:
        return parse_json("\n".join(lines))
    except ValueError as error:
        raise UserError(f"The file is not valid JSON: {error}.", where=str(path), hint=hint) from None


def excerpt(text: str, limit: int = 80) -> str:
    """Return the beginning of a text for an error message, with control characters replaced by spaces."""
    shown = "".join(char if char.isprintable() else " " for char in text[:limit])
    return shown if len(shown) < limit else shown[: limit - 1] + "…"


def check_file(path: Path) -> None:
    """Raise a UserError if a file cannot be opened; for a missing file it suggests the nearest existing name."""
    refuse_odd_name(path)
    if not path.exists():
        raise not_found(path)
    if path.is_dir():
        raise UserError("This is a folder, not a file", where=str(path), hint=f"name files in it; {ACCEPTED_FILES}")
    if not os.access(path, os.R_OK):
        raise _unreadable(path, "permission denied")


def refuse_odd_name(path: Path) -> None:
    """Refuse a file name that is not UTF-8: the settings and reports of a run name its files."""
    if any("\ud800" <= char <= "\udfff" for char in str(path)):
        raise UserError("The name of this file is not UTF-8.", where=ascii(str(path)), hint="rename it")


def _unreadable(path: Path, reason: str) -> UserError:
    hint = f"check its permissions: ls -l {shlex.quote(str(path))}"
    return UserError(f"{path} cannot be read: {reason}", where=str(path), hint=hint)


def decode_lines(raw_lines: Iterable[bytes | str], name: str, first: int = 1) -> Iterator[str]:
    """Decode lines as UTF-8. `name` and `first`, the number of the first line, are used in error messages."""
    number = first - 1
    for number, raw in enumerate(raw_lines, first):
        line = raw if isinstance(raw, str) else _decode(raw, name, number)
        if number == 1:
            line = line.removeprefix("\ufeff")
            if not line:  # the file contains only a byte-order mark
                number = 0
                break
        if "\0" in line:
            raise _not_text(name, number, "it contains a NUL byte")
        yield line.removesuffix("\n").removesuffix("\r")
    if number == 0:
        raise UserError(f"{name} is empty (0 lines)", where=name, hint="give a file with one sentence per line")


def _decode(raw: bytes, name: str, number: int) -> str:
    if number == 1:
        _check_start(raw, name)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if b"\0" in raw:  # not Latin-1 text either: a hint about encodings would mislead
            raise _not_text(name, number, "it contains a NUL byte") from None
        raise UserError(
            f"{name} is not UTF-8: byte 0x{raw[error.start]:02X} in line {number}, column {error.start + 1}",
            where=f"{name}:{number}",
            hint=f"convert it: {_iconv(name, 'ISO-8859-1')} (older Korean files: -f CP949)",
        ) from None


def _check_start(raw: bytes, name: str) -> None:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        hint = f"convert it: {_iconv(name, 'UTF-16')}"
        raise UserError(f"{name} is UTF-16 according to its byte-order mark, not UTF-8", where=f"{name}:1", hint=hint)
    for signature, kind in _SIGNATURES.items():
        if raw.startswith(signature):
            raise _not_text(name, 1, f"it looks like {kind}", hint="give plain UTF-8 text, one sentence per line")


def _not_text(name: str, number: int, reason: str, *, hint: str = "") -> UserError:
    hint = hint or f"give plain UTF-8 text; if this is UTF-16, convert it: {_iconv(name, 'UTF-16')}"
    return UserError(f"{name} does not look like text: {reason}", where=f"{name}:{number}", hint=hint)


def _iconv(name: str, encoding: str) -> str:
    """Return the command that converts this file. The suffix, which tells format or language, is kept."""
    path = Path(name)
    if not path.is_file():
        return f"iconv -f {encoding} -t UTF-8 in > out"
    out = shlex.quote(str(path.with_name("utf8." + strip_gz(path))))
    if strip_gz(path) != path.name:
        return f"gzip -dc {shlex.quote(name)} | iconv -f {encoding} -t UTF-8 > {out}"
    return f"iconv -f {encoding} -t UTF-8 {shlex.quote(name)} > {out}"


def strip_gz(path: Path) -> str:
    """Return the file name without `.gz`."""
    return path.name[:-3] if path.name.lower().endswith(".gz") else path.name


def decode_plain(raw: bytes, first: int) -> str | None:
    """Decode a block of lines at once, without the last line feed; None if it must be decoded line by line."""
    if first == 1 and raw.startswith((*_SIGNATURES, b"\xff\xfe", b"\xfe\xff", codecs.BOM_UTF8)):
        return None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or "\r" in text else text.removesuffix("\n")


def is_normalized(text: str) -> bool:
    """Return whether `normalize_line` would leave all lines of this text unchanged."""
    # Several searches for one character are faster than one regular expression.
    unusual = UNUSUAL_SPACES[:8] if text.isascii() else UNUSUAL_SPACES + WORD_MARK
    return (
        not any(char in text for char in unusual)
        and not any(spaces in text for spaces in ("  ", " \n", "\n "))
        and not text.startswith(" ")
        and not text.endswith(" ")
        and unicodedata.is_normalized("NFC", text)
    )
