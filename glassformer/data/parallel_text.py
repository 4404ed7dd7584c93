"""Parallel text files: two aligned files (one sentence per line), `.tsv`, `.jsonl`, or a format of `translation_units`.

Any of them may be compressed with gzip and split into shards. Anything that could silently shift one side against the
other is refused with its file and line.
"""

from __future__ import annotations

import glob
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from glassformer.data.translation_units import READERS, read_units
from glassformer.errors import UserError
from glassformer.text.lines import (
    ACCEPTED_FILES,
    PathLike,
    check_file,
    decode_lines,
    decode_plain,
    excerpt,
    is_normalized,
    normalize_line,
    read_raw_lines,
    strip_gz,
)

FileFormat = Literal["lines", "tsv", "jsonl", "units"]

PAIRS_PER_BLOCK = 20_000  # large enough to outweigh the transfer to a process, small enough for several in memory
BYTES_PER_BLOCK = 32 * 2**20


class SentencePair(NamedTuple):
    """A sentence and its translation, with file and line.

    `line` counts from 1. For two aligned files, `file` is the source file; the line is the same in both.
    """

    source: str
    target: str
    line: int
    file: str


@dataclass(frozen=True)
class ParallelFiles:
    """The files of one corpus. `source` contains all of them, except with the format "lines"."""

    source: tuple[Path, ...]
    target: tuple[Path, ...] = ()
    format: FileFormat = "lines"

    def __str__(self) -> str:
        return ", ".join(map(str, (*self.source, *self.target)))


# Finding the files -------------------------------------------


def parallel_files(paths: Sequence[PathLike | Sequence[PathLike]]) -> ParallelFiles:
    """Determine format and sides of a corpus from its file names, and check that the files can be read.

    Accepts two files; one or several files with both sides (`.tsv`, `.tmx` …); two lists of shards; glob patterns in
    place of any file; or a flat list of shards with two language suffixes, of which the first is the source. Raises
    UserError otherwise.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    groups = [_expand(item) for item in paths]
    files = [file for group in groups for file in group]
    if not files:
        raise UserError("No files were given", hint=ACCEPTED_FILES)
    formats = {_format(file) for file in files}
    if len(formats) > 1:
        raise UserError("These files have different formats", where=_names(files), hint=ACCEPTED_FILES)
    format = formats.pop()
    if format != "lines":
        return ParallelFiles(tuple(files), (), format)
    if len(files) == 1:
        raise UserError(
            "One text file has only one side of the pairs: two aligned files or a .tsv are needed",
            where=str(files[0]),
            hint=ACCEPTED_FILES,
        )
    source, target = _sides(groups)
    _check_sides(source, target)
    return ParallelFiles(tuple(source), tuple(target), "lines")


def expand_paths(paths: Sequence[PathLike | Sequence[PathLike]]) -> list[Path]:
    """Return the files that names, lists of names and glob patterns stand for, in order."""
    return [file for item in paths for file in _expand(item)]


def file_suffix(path: PathLike) -> str:
    """Return the suffix without `.gz`: `tsv` for train.tsv and for train.tsv.gz."""
    return Path(strip_gz(Path(path))).suffix.lower().removeprefix(".")


def side_names(paths: Sequence[PathLike | Sequence[PathLike]]) -> tuple[str, str]:
    """Return suffixes for new files of the two sides: those of aligned text files, or else "source" and "target"."""
    files = [Path(side if isinstance(side, str | os.PathLike) else side[0]) for side in paths]
    names = [file_suffix(file) for file in files if _format(file) == "lines"]
    return (names[0], names[1]) if len({*names}) == 2 and all(map(str.isalnum, names)) else ("source", "target")


def _expand(item: PathLike | Sequence[PathLike]) -> list[Path]:
    """Return the files that one argument stands for: itself, the sorted matches of a pattern, or those of a list."""
    if not isinstance(item, str | os.PathLike):
        return [file for part in item for file in _expand(part)]
    path = Path(item).expanduser()
    # A file whose name contains brackets is a file, not a pattern.
    if any(char in str(path) for char in "*?[") and not path.exists():
        found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
        files = [file for file in found if not file.is_dir()]
        if not files:
            hint = f"check the folder and the spelling; relative names start at {Path.cwd()}"
            raise UserError("No file matches this pattern", where=str(path), hint=hint)
    else:
        files = _dataset_files(path) or [path]
    for file in files:
        check_file(file)
    return files


def _dataset_files(path: Path) -> list[Path]:
    """Return the files of a data set saved by Hugging Face `datasets`: of its training split, if it has splits."""
    folder = path / "train" if (path / "dataset_dict.json").is_file() else path
    return sorted(folder.glob("*.arrow")) if (folder / "state.json").is_file() else []


def _sides(groups: list[list[Path]]) -> tuple[list[Path], list[Path]]:
    """Return source and target files: the two groups as given, or the files of two language suffixes."""
    suffixes = [{file_suffix(file) for file in group} for group in groups]
    # Two groups that both contain both languages ("a.*" "b.*") are not two sides.
    crossed = len(groups) == 2 and suffixes[0] == suffixes[1] and len(suffixes[0]) > 1
    if len(groups) == 2 and not crossed:
        return groups[0], groups[1]
    files = [file for group in groups for file in group]
    languages: dict[str, list[Path]] = {}
    for file in files:
        languages.setdefault(file_suffix(file), []).append(file)
    if len(languages) != 2 or len({len(shards) for shards in languages.values()}) != 1:
        found = ", ".join(f"{len(shards)} × .{suffix}" for suffix, shards in languages.items())
        raise UserError(
            f"These {len(files)} files do not form two sides of equal size: their language suffixes are {found}",
            where=_names(files),
            hint=ACCEPTED_FILES,
        )
    source, target = languages.values()
    by_stem = {_stem(file): file for file in target}
    if len(by_stem) == len(target) and {_stem(file) for file in source} == by_stem.keys():
        target = [by_stem[_stem(file)] for file in source]  # a.en b.en b.de a.de: align by name
    return source, target


def _check_sides(source: list[Path], target: list[Path]) -> None:
    if len(source) != len(target):
        raise UserError(
            f"The source has {len(source)} files, the target has {len(target)}",
            where=f"source: {_names(source)}; target: {_names(target)}",
            hint="give the same number of files on each side, in the same order (or join them with cat)",
        )
    both = {os.path.realpath(file) for file in source} & {os.path.realpath(file) for file in target}
    if both:
        hint = "give the file of the other language second, for example: train.en train.de"
        raise UserError("Source and target are the same file", where=", ".join(sorted(both)), hint=hint)


def _stem(path: Path) -> str:
    return Path(strip_gz(path)).stem


def _format(path: Path) -> FileFormat:
    match file_suffix(path):
        case "tsv":
            return "tsv"
        case "jsonl":
            return "jsonl"
        case suffix:
            return "units" if f".{suffix}" in READERS else "lines"


def _names(files: Sequence[Path]) -> str:
    shown = ", ".join(map(str, files[:6]))
    return shown if len(files) <= 6 else f"{shown} and {len(files) - 6} more"


# Reading the pairs -------------------------------------------


def read_pairs(files: ParallelFiles) -> Iterator[SentencePair]:
    """Yield all pairs of a corpus in order, normalized.

    A blank line gives a pair of empty texts. Raises UserError with file and line if a line has the wrong format.
    """
    for block in read_blocks(files):
        yield from block.pairs()


class RawBlock(NamedTuple):
    """Consecutive lines as bytes, to be decoded in any process."""

    format: FileFormat
    file: str
    first: int  # number of the first line
    raw: bytes
    other_file: str = ""  # with format "lines": the target file and its lines
    other_raw: bytes = b""
    keys: tuple[str, str] | None = None  # with format "jsonl"

    def texts(self) -> tuple[list[str], list[str]]:
        """Return normalized sources and targets. Raises UserError for the first line with the wrong format."""
        if texts := self._texts_at_once():
            return texts
        pairs = [(normalize_line(source), normalize_line(target)) for source, target in self._line_by_line()]
        return [source for source, _ in pairs], [target for _, target in pairs]

    def pairs(self) -> Iterator[SentencePair]:
        for number, (source, target) in enumerate(zip(*self.texts(), strict=True), self.first):
            yield SentencePair(source, target, number, self.file)

    def _texts_at_once(self) -> tuple[list[str], list[str]] | None:
        """Return the texts if they are normalized already, as in most corpora: much faster than line by line."""
        if self.format == "jsonl":
            return None
        text = decode_plain(self.raw, self.first)
        if text is None:
            return None
        if self.format == "lines":
            other = decode_plain(self.other_raw, self.first)
            if other is None or not (is_normalized(text) and is_normalized(other)):
                return None
            return text.split("\n"), other.split("\n")
        cells = [line.split("\t", 2) for line in text.split("\n")]
        if min(map(len, cells)) < 2:
            return None
        sources, targets = [cell[0] for cell in cells], [cell[1] for cell in cells]
        return (sources, targets) if is_normalized("\n".join(sources)) and is_normalized("\n".join(targets)) else None

    def _line_by_line(self) -> Iterator[tuple[str, str]]:
        lines = decode_lines(io.BytesIO(self.raw), self.file, self.first)
        if self.format == "lines":
            return zip(lines, decode_lines(io.BytesIO(self.other_raw), self.other_file, self.first), strict=True)
        numbered = ((line, f"{self.file}:{number}") for number, line in enumerate(lines, self.first))
        return (_tsv_pair(*line) if self.format == "tsv" else _jsonl_pair(*line, self.keys) for line in numbered)


def read_blocks(files: ParallelFiles) -> Iterator[RawBlock]:
    """Yield a corpus as blocks of raw lines, in order. Errors within lines are raised by `RawBlock.texts`."""
    if files.format == "lines":
        for source, target in zip(files.source, files.target, strict=True):
            yield from _aligned_blocks(source, target)
        return
    keys: tuple[str, str] | None = None
    for path in files.source:
        lines, first = _units_as_json(path) if files.format == "units" else read_raw_lines(path), 1
        while some := _take(lines):
            if files.format != "tsv" and keys is None:
                keys = _keys_in(some, str(path), first)  # the same keys for all shards
            yield RawBlock("tsv" if files.format == "tsv" else "jsonl", str(path), first, b"".join(some), keys=keys)
            first += len(some)
        if first == 1:
            _refuse_empty(path, [])


def _units_as_json(path: Path) -> Iterator[bytes]:
    """Yield the units of a file as lines of JSON; the number of a line is that of the unit."""
    for source, target in read_units(path):
        yield json.dumps({"source": source, "target": target}).encode() + b"\n"


def _take(lines: Iterator[bytes]) -> list[bytes]:
    """Return the next lines of a block, limited in number and, if lines are very long, in bytes."""
    some, size = [], 0
    for line in islice(lines, PAIRS_PER_BLOCK):
        some.append(line)
        size += len(line)
        if size > BYTES_PER_BLOCK:
            break
    return some


def _aligned_blocks(source: Path, target: Path) -> Iterator[RawBlock]:
    lines, translations, first = read_raw_lines(source), read_raw_lines(target), 1
    some, others = list[bytes](), list[bytes]()
    while True:
        some, others = some or _take(lines), others or _take(translations)
        shared = min(len(some), len(others))
        if first == 1 and not shared:
            _refuse_empty(source, some)
            _refuse_empty(target, others)
        if shared:
            raw, other_raw = b"".join(some[:shared]), b"".join(others[:shared])
            yield RawBlock("lines", str(source), first, raw, str(target), other_raw)
        some, others, first = some[shared:], others[shared:], first + shared
        # Shards are compared one by one: errors that cancel out in the total would shift a whole shard.
        if not shared and others:
            rest = decode_lines(chain(others, translations), str(target), first)
            raise _unequal(source, target, first - 1, rest, shorter=source)
        if not shared and some:
            rest = decode_lines(chain(some, lines), str(source), first)
            raise _unequal(source, target, first - 1, rest, shorter=target)
        if not shared:
            return


def _refuse_empty(path: Path, lines: list[bytes]) -> None:
    next(decode_lines(lines, str(path)))


def _unequal(source: Path, target: Path, shared: int, rest: Iterable[str], shorter: Path) -> UserError:
    blank = [not line.strip() for line in rest]
    total = shared + len(blank)
    counts = (shared, total) if shorter == source else (total, shared)
    longer = target if shorter == source else source
    if all(blank):
        hint = f"the extra lines are blank: delete the last {len(blank)} of {longer}"
    else:
        hint = "line n of one file must translate line n of the other; export both again, or use one .tsv"
    return UserError(
        f"The two sides have different numbers of lines: {source} has {counts[0]}, {target} has {counts[1]}",
        where=f"{longer}:{shared + 1} (the first line without a counterpart)",
        hint=hint,
    )


def _tsv_pair(line: str, where: str) -> tuple[str, str]:
    source, tab, rest = line.partition("\t")
    if not tab and line.strip():
        raise UserError(
            f"This line has no tab: {excerpt(line)}", where=where, hint="every line of a .tsv must be source<TAB>target"
        )
    return source, rest.partition("\t")[0]


def _jsonl_pair(line: str, where: str, keys: tuple[str, str] | None) -> tuple[str, str]:
    if not line.strip():
        return "", ""
    record = _json_object(line, where)
    source, target = keys or _choose_keys(record, where)
    return _json_text(record, source, where), _json_text(record, target, where)


def _keys_in(lines: list[bytes], file: str, first: int) -> tuple[str, str] | None:
    """Return the keys of the first object; None if all lines are blank."""
    for number, line in enumerate(decode_lines(lines, file, first), first):
        if line.strip():
            where = f"{file}:{number}"
            return _choose_keys(_json_object(line, where), where)
    return None


def _json_object(line: str, where: str) -> dict[str, Any]:
    hint = 'every line of a .jsonl must be one object: {"source": "…", "target": "…"}'
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        if line.lstrip().startswith("["):
            hint += "; to convert a file that is one list: jq -c '.[]' in.json > out.jsonl"
        raise UserError(f"This line is not JSON ({error}): {excerpt(line)}", where=where, hint=hint) from None
    if not isinstance(record, dict):
        raise UserError(f"This line is JSON, but not an object: {excerpt(line)}", where=where, hint=hint)
    return record


def _choose_keys(record: dict[str, Any], where: str) -> tuple[str, str]:
    if "source" in record and "target" in record:
        return "source", "target"
    if len(record) == 2 and all(isinstance(value, str) for value in record.values()):
        first, second = record
        return first, second
    hint = 'name the two texts "source" and "target", or keep only two keys with text: {"en": …, "fr": …}'
    raise UserError(f'The object lacks the keys "source" and "target"; it has {_keys(record)}', where=where, hint=hint)


def _json_text(record: dict[str, Any], key: str, where: str) -> str:
    if key not in record:
        hint = "give every line the same two keys as the first line"
        raise UserError(f'The object lacks the key "{key}"; it has {_keys(record)}', where=where, hint=hint)
    text = record[key]
    if not isinstance(text, str):
        hint = "write it as a string in quotes"
        raise UserError(f'The value of "{key}" is not text: {excerpt(repr(text))}', where=where, hint=hint)
    # JSON can contain half of a surrogate pair, which cannot be encoded as UTF-8.
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(
            f'The value of "{key}" contains a lone surrogate (\\ud800 to \\udfff), which is not a character',
            where=where,
            hint="write the file again with real characters (ensure_ascii=False in Python's json)",
        ) from None
    return text


def _keys(record: dict[str, Any]) -> str:
    return excerpt(", ".join(f'"{key}"' for key in record) or "no keys")
