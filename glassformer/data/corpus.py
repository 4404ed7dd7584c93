"""Parallel text on disk: which files belong together, and which pairs are in them.

A corpus comes as two aligned files (one sentence a line), as `.tsv` or as `.jsonl`; any of them may be
compressed with gzip, and may come in several shards. Everything that could silently shift one side against
the other is refused with the file and the line.
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

from glassformer.errors import UserError
from glassformer.text.lines import (
    ACCEPTED,
    PathLike,
    check_file,
    decoded,
    is_tidy,
    normalize_line,
    plain_name,
    plain_text,
    raw_lines,
)

Form = Literal["lines", "tsv", "jsonl"]


PAIRS_A_BLOCK = 20_000  # enough for a process to be worth the sending, few enough to hold several blocks in memory
BYTES_A_BLOCK = 32 * 2**20


class Pair(NamedTuple):
    """One sentence and its translation, and where they came from.

    line counts from 1 in `file`; of two aligned files, `file` is the source's (the line is the same in both).
    """

    source: str
    target: str
    line: int
    file: str


@dataclass(frozen=True)
class ParallelFiles:
    """Files that make one corpus. In the forms "tsv" and "jsonl", `source` holds them all."""

    source: tuple[Path, ...]
    target: tuple[Path, ...] = ()
    form: Form = "lines"

    def __str__(self) -> str:
        return ", ".join(map(str, (*self.source, *self.target)))


# Which files belong together ---------------------------------


def parallel_files(paths: Sequence[PathLike | Sequence[PathLike]]) -> ParallelFiles:
    """Decide from the names what form a corpus has; every file named exists and may be read.

    Accepts two files; `.tsv` or `.jsonl`, one or several; two lists of shards; glob patterns in place of any
    file; or a flat list of shards that have two language suffixes, whose order of appearance says which is
    the source. Anything else is a UserError.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    groups = [_expand(item) for item in paths]
    files = [file for group in groups for file in group]
    if not files:
        raise UserError("No files were given", hint=ACCEPTED)
    forms = {_form(file) for file in files}
    if len(forms) > 1:
        raise UserError("These files are of different forms", where=_names(files), hint=ACCEPTED)
    form = forms.pop()
    if form != "lines":
        return ParallelFiles(tuple(files), (), form)
    if len(files) == 1:
        raise UserError(
            "One file alone has only one side of the text: two aligned files or a .tsv are needed",
            where=str(files[0]),
            hint=ACCEPTED,
        )
    source, target = _sides(groups)
    _check_sides(source, target)
    return ParallelFiles(tuple(source), tuple(target), "lines")


def text_files(paths: Sequence[PathLike | Sequence[PathLike]]) -> list[Path]:
    """Files that hold one kind of thing each by itself: shards, lists and patterns in one list, in order."""
    return [file for item in paths for file in _expand(item)]


def suffix_of(path: PathLike) -> str:
    """`tsv` for train.tsv and for train.tsv.gz."""
    return _suffix(Path(path))


def _expand(item: PathLike | Sequence[PathLike]) -> list[Path]:
    """The files that one argument stands for: itself, the sorted matches of a pattern, or those of a list."""
    if not isinstance(item, str | os.PathLike):
        return [file for part in item for file in _expand(part)]
    path = Path(item).expanduser()
    # A name with brackets that exists is a name; only otherwise is it a pattern.
    if any(sign in str(path) for sign in "*?[") and not path.exists():
        found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
        files = [file for file in found if not file.is_dir()]
        if not files:
            raise UserError(
                "No file matches this pattern",
                where=str(path),
                hint=f"check the folder and the spelling; relative names start from {Path.cwd()}",
            )
    else:
        files = [path]
    for file in files:
        check_file(file)
    return files


def _sides(groups: list[list[Path]]) -> tuple[list[Path], list[Path]]:
    """Source and target: the two groups as given, or else the two language suffixes."""
    suffixes = [{_suffix(file) for file in group} for group in groups]
    # Two groups which both hold both languages ("a.*" "b.*") are not two sides.
    crossed = len(groups) == 2 and suffixes[0] == suffixes[1] and len(suffixes[0]) > 1
    if len(groups) == 2 and not crossed:
        return groups[0], groups[1]
    files = [file for group in groups for file in group]
    languages: dict[str, list[Path]] = {}
    for file in files:
        languages.setdefault(_suffix(file), []).append(file)
    if len(languages) != 2 or len({len(shards) for shards in languages.values()}) != 1:
        found = ", ".join(f"{len(shards)} × .{suffix}" for suffix, shards in languages.items())
        raise UserError(
            f"These {len(files)} files do not fall into two sides: their language suffixes are {found}",
            where=_names(files),
            hint=ACCEPTED,
        )
    source, target = languages.values()
    by_stem = {_stem(file): file for file in target}
    if len(by_stem) == len(target) and {_stem(file) for file in source} == by_stem.keys():
        target = [by_stem[_stem(file)] for file in source]  # a.en b.en b.de a.de: the names say what aligns
    return source, target


def _check_sides(source: list[Path], target: list[Path]) -> None:
    if len(source) != len(target):
        raise UserError(
            f"The source has {len(source)} files, the target {len(target)}",
            where=f"source: {_names(source)}; target: {_names(target)}",
            hint="give as many files on each side, in the same order (or join them with cat)",
        )
    both = {os.path.realpath(file) for file in source} & {os.path.realpath(file) for file in target}
    if both:
        raise UserError(
            "Source and target are the same file",
            where=", ".join(sorted(both)),
            hint="give the file of the other language second, as in: train.en train.de",
        )


def _suffix(path: Path) -> str:
    return Path(plain_name(path)).suffix.lower().removeprefix(".")


def _stem(path: Path) -> str:
    return Path(plain_name(path)).stem


def _form(path: Path) -> Form:
    suffix = _suffix(path)
    return "tsv" if suffix == "tsv" else "jsonl" if suffix == "jsonl" else "lines"


def _names(files: Sequence[Path]) -> str:
    shown = ", ".join(map(str, files[:6]))
    return shown if len(files) <= 6 else f"{shown} and {len(files) - 6} more"


# What is in them ---------------------------------------------


def read_pairs(files: ParallelFiles) -> Iterator[Pair]:
    """Every pair of the corpus in order, normalised, read as it is asked for.

    Nothing is skipped: a blank line comes out as a pair with empty text, to be counted as such. Raises UserError with
    file and line on anything that is not what its form promises.
    """
    for block in read_blocks(files):
        yield from block.pairs()


class Block(NamedTuple):
    """Neighbouring lines as they stand in the file or files, for any process to make text of."""

    form: Form
    file: str
    first: int  # number of the first line
    raw: bytes
    other_file: str = ""  # in the form "lines": the target's file, and its lines
    other_raw: bytes = b""
    keys: tuple[str, str] | None = None  # in the form "jsonl"

    def texts(self) -> tuple[list[str], list[str]]:
        """Sources and targets, normalised. Raises UserError for the first line that is not what it should be."""
        if tidy := self._tidy_texts():
            return tidy
        pairs = [(normalize_line(source), normalize_line(target)) for source, target in self._one_by_one()]
        return [source for source, _ in pairs], [target for _, target in pairs]

    def pairs(self) -> Iterator[Pair]:
        for number, (source, target) in enumerate(zip(*self.texts(), strict=True), self.first):
            yield Pair(source, target, number, self.file)

    def _tidy_texts(self) -> tuple[list[str], list[str]] | None:
        """The same where nothing needs a change, as in most corpora: many times faster than line by line."""
        if self.form == "jsonl":
            return None
        text = plain_text(self.raw, self.first)
        if text is None:
            return None
        if self.form == "lines":
            other = plain_text(self.other_raw, self.first)
            if other is None or not (is_tidy(text) and is_tidy(other)):
                return None
            return text.split("\n"), other.split("\n")
        cells = [line.split("\t", 2) for line in text.split("\n")]
        if min(map(len, cells)) < 2:
            return None
        sources, targets = [cell[0] for cell in cells], [cell[1] for cell in cells]
        return (sources, targets) if is_tidy("\n".join(sources)) and is_tidy("\n".join(targets)) else None

    def _one_by_one(self) -> Iterator[tuple[str, str]]:
        lines = decoded(io.BytesIO(self.raw), self.file, self.first)
        if self.form == "lines":
            return zip(lines, decoded(io.BytesIO(self.other_raw), self.other_file, self.first), strict=True)
        numbered = ((line, f"{self.file}:{number}") for number, line in enumerate(lines, self.first))
        return (_tsv_pair(*line) if self.form == "tsv" else _jsonl_pair(*line, self.keys) for line in numbered)


def read_blocks(files: ParallelFiles) -> Iterator[Block]:
    """The corpus as raw blocks in order. What is wrong with a line is found by whoever makes text of its block."""
    if files.form == "lines":
        for source, target in zip(files.source, files.target, strict=True):
            yield from _aligned_blocks(source, target)
        return
    keys: tuple[str, str] | None = None
    for path in files.source:
        lines, first = raw_lines(path), 1
        while some := _take(lines):
            if files.form == "jsonl" and keys is None:
                keys = _keys_in(some, str(path), first)  # all shards are read by the same two
            yield Block(files.form, str(path), first, b"".join(some), keys=keys)
            first += len(some)
        if first == 1:
            _refuse_empty(path, [])


def _take(lines: Iterator[bytes]) -> list[bytes]:
    """Return the next lines of a block: bounded in number and, should lines be very long, in bytes."""
    some, size = [], 0
    for line in islice(lines, PAIRS_A_BLOCK):
        some.append(line)
        size += len(line)
        if size > BYTES_A_BLOCK:
            break
    return some


def _aligned_blocks(source: Path, target: Path) -> Iterator[Block]:
    lines, translations, first = raw_lines(source), raw_lines(target), 1
    some, others = list[bytes](), list[bytes]()
    while True:
        some, others = some or _take(lines), others or _take(translations)
        shared = min(len(some), len(others))
        if first == 1 and not shared:
            _refuse_empty(source, some)
            _refuse_empty(target, others)
        if shared:
            raw, other_raw = b"".join(some[:shared]), b"".join(others[:shared])
            yield Block("lines", str(source), first, raw, str(target), other_raw)
        some, others, first = some[shared:], others[shared:], first + shared
        # Shards are compared one by one: two mistakes that cancel out in the total would shift a whole shard.
        if not shared and others:
            raise _unequal(source, target, first - 1, decoded(chain(others, translations), str(target), first), source)
        if not shared and some:
            raise _unequal(source, target, first - 1, decoded(chain(some, lines), str(source), first), target)
        if not shared:
            return


def _refuse_empty(path: Path, lines: list[bytes]) -> None:
    next(decoded(lines, str(path)))


def _unequal(source: Path, target: Path, shared: int, rest: Iterable[str], shorter: Path) -> UserError:
    blank = [not line.strip() for line in rest]
    total = shared + len(blank)
    counts = (shared, total) if shorter == source else (total, shared)
    longer = target if shorter == source else source
    if all(blank):
        hint = f"only blank lines are too many: delete the last {len(blank)} of {longer}"
    else:
        hint = "line n of one file must translate line n of the other; export both anew, or use one .tsv"
    return UserError(
        f"The two sides have different numbers of lines: {source} has {counts[0]}, {target} has {counts[1]}",
        where=f"{longer}:{shared + 1} (the first line without a partner)",
        hint=hint,
    )


def _tsv_pair(line: str, where: str) -> tuple[str, str]:
    source, tab, rest = line.partition("\t")
    if not tab and line.strip():
        raise UserError(
            f"This line has no tab: {_short(line)}",
            where=where,
            hint="every line of a .tsv is source<TAB>target",
        )
    return source, rest.partition("\t")[0]


def _jsonl_pair(line: str, where: str, keys: tuple[str, str] | None) -> tuple[str, str]:
    if not line.strip():
        return "", ""
    record = _json_object(line, where)
    source, target = keys or _choose_keys(record, where)
    return _json_text(record, source, where), _json_text(record, target, where)


def _keys_in(lines: list[bytes], file: str, first: int) -> tuple[str, str] | None:
    """The keys of the first object; None if all lines are blank."""
    for number, line in enumerate(decoded(lines, file, first), first):
        if line.strip():
            where = f"{file}:{number}"
            return _choose_keys(_json_object(line, where), where)
    return None


def _json_object(line: str, where: str) -> dict[str, Any]:
    hint = 'every line of a .jsonl is one object: {"source": "…", "target": "…"}'
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        if line.lstrip().startswith("["):
            hint += "; a file that is one long list: jq -c '.[]' in.json > out.jsonl"
        raise UserError(f"This line is not JSON ({error}): {_short(line)}", where=where, hint=hint) from None
    if not isinstance(record, dict):
        raise UserError(f"This line is JSON, but not an object: {_short(line)}", where=where, hint=hint)
    return record


def _choose_keys(record: dict[str, Any], where: str) -> tuple[str, str]:
    if "source" in record and "target" in record:
        return "source", "target"
    if len(record) == 2 and all(isinstance(value, str) for value in record.values()):
        first, second = record
        return first, second
    raise UserError(
        f'The object has no keys "source" and "target", but {_keys(record)}',
        where=where,
        hint='name the two texts "source" and "target", or keep just two keys with text: {"en": …, "fr": …}',
    )


def _json_text(record: dict[str, Any], key: str, where: str) -> str:
    if key not in record:
        raise UserError(
            f'The object lacks the key "{key}"; it has {_keys(record)}',
            where=where,
            hint="every line needs the same two keys as the first",
        )
    text = record[key]
    if not isinstance(text, str):
        raise UserError(f'The value of "{key}" is not text: {_short(repr(text))}', where=where, hint="quote it")
    # JSON can spell half of a character, which no file could hold and no tokenizer takes.
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(
            f'The value of "{key}" holds a lone surrogate (\\ud800 to \\udfff), which is not a character',
            where=where,
            hint="write the file anew with real characters (ensure_ascii=False in Python's json)",
        ) from None
    return text


def _keys(record: dict[str, Any]) -> str:
    return _short(", ".join(f'"{key}"' for key in record) or "no keys")


def _short(text: str) -> str:
    text = "".join(char if char.isprintable() else " " for char in text[:80])
    return text if len(text) < 80 else text[:79] + "…"
