"""From files to what training reads: text is read and checked, the vocabulary learnt, everything encoded.

One road for a corpus of any size: block by block, on all cores, in constant memory but for 32 bytes a pair. What was
made is kept by its content (`cache.py`), so that the same corpus is prepared once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers

from glassformer.data import checks as checking
from glassformer.data.cache import Cache
from glassformer.data.checks import Measures
from glassformer.data.corpus import Block, Pair, ParallelFiles, read_blocks, read_pairs
from glassformer.data.process_pool import each
from glassformer.data.report import EXAMPLES, REASONS, Checked, DataReport, checked, leakage
from glassformer.data.store import Ids, IdsWriter, Lines, LinesWriter, Text
from glassformer.errors import UserError
from glassformer.settings import Limits
from glassformer.text import characters
from glassformer.text.tokenizer import LinesEncoder, Tokenizer

# Learning takes time and memory by the amount of text, and what is frequent enough to become an entry is in these too.
VOCABULARY_PAIRS = 1_000_000
LEARNT = 2  # the way in which a vocabulary is learnt: another number where it changes

Tell = Callable[[str, int, int | None], None]  # what is being done, pairs done, pairs in all if that is known


def silent(what: str, done: int, of: int | None) -> None:
    """Tells nobody."""


class Splits(NamedTuple):
    train: Text
    valid: list[Pair]
    test: list[Pair]


def prepare(
    train: ParallelFiles | Sequence[ParallelFiles],
    valid: ParallelFiles | None,
    test: ParallelFiles | None,
    limits: Limits,
    *,
    cache: Cache | None = None,
    tell: Tell = silent,
) -> tuple[Splits, DataReport]:
    """Read, check and report everything that a run learns from and is judged by.

    Several corpora are one after the other; a pair that two of them have counts in the first. Without `valid`, a slice
    of train is set aside for it. Nothing leaked is removed, only reported. Raises UserError where too little is left:
    fewer than two pairs to train on, or none to judge by.
    """
    cache = cache or Cache()
    corpora = [train] if isinstance(train, ParallelFiles) else list(train)
    rules = Limits(**{name: getattr(limits, name) for name in Limits.model_fields})
    sources = _Sources(corpora, valid, test)
    unchanged = cache.unchanged(sources.files())
    parts = [sources.digests(cache), rules.model_dump()]

    def check(beside: Path) -> dict[str, Any]:
        about = _check(beside, sources, rules, tell)
        if not unchanged():  # else other text would be kept under this key
            raise UserError("The text changed while it was read.", where=str(sources), hint="start again")
        return about

    folder, about = cache.kept("text", parts, check)
    names = sources.names()
    text = Text(folder, about, names, cache)
    held_out = (_pairs_from(about[split], names) for split in ("valid", "test"))
    report = DataReport.from_json(_with_names(about["report"], names))
    return Splits(text, *held_out), replace(report, limits=limits)


@dataclass(frozen=True)
class _Sources:
    """The files of a run."""

    train: list[ParallelFiles]
    valid: ParallelFiles | None
    test: ParallelFiles | None

    def names(self) -> list[str]:
        """Files by number: what is kept of a corpus holds for a copy of it under another name too."""
        return [str(path) for group in self._groups() if group for path in group.source]

    def __str__(self) -> str:
        return ", ".join(map(str, self.files()))

    def files(self) -> list[Path]:
        return [path for group in self._groups() if group for path in (*group.source, *group.target)]

    def digests(self, cache: Cache) -> list[Any]:
        every = iter(cache.digests(self.files()))
        return [
            [group.form, [next(every) for _ in group.source], [next(every) for _ in group.target]] if group else None
            for group in self._groups()
        ]

    def _groups(self) -> list[ParallelFiles | None]:
        return [*self.train, self.valid, self.test]


# Checking -----------------------------------------------------


def _check(folder: Path, sources: _Sources, limits: Limits, tell: Tell) -> dict[str, Any]:
    """Reads and checks everything, writes the lines and the rows in use; gives what is to be said about them."""
    names = sources.names()
    lines, measures, ends = _read_all(folder, sources.train, names, tell)
    decision = checking.decide(measures, limits)
    train, set_aside = _parted(measures, decision.kept, hold_out=sources.valid is None)
    examples = (decision.rows(reason)[:EXAMPLES] for reason in REASONS)
    seen = _look(lines, decision.codes, train, np.unique(np.concatenate([set_aside, *examples])), tell)
    report = checked(measures, decision, seen.scripts, seen.pairs.__getitem__)
    held_out = _held_out(sources, report, len(train), [seen.pairs[row] for row in set_aside.tolist()])
    leaks = {
        split: leakage(pairs, checking.first_in_train(measures, train, _measures_of(pairs)), lines.place)
        for split, pairs in held_out.pairs.items()
    }
    whole = DataReport(
        report,
        held_out.accounts["valid"],
        held_out.accounts.get("test"),
        held_out=held_out.note,
        leakage=leaks,
        pairs={"train": len(train)} | {split: len(pairs) for split, pairs in held_out.pairs.items()},
    )
    np.save(folder / "train.npy", train)
    return {
        **_fingerprints(seen.digest, held_out.pairs["valid"]),
        "corpora": np.diff(np.searchsorted(train, [0, *ends])).tolist(),
        "blocks": lines.index,
        "report": _with_numbers(whole.to_json() | {"limits": {}}, names),
        **{split: _plain_pairs(held_out.pairs.get(split, []), names) for split in ("valid", "test")},
    }


def _parted(measures: Measures, kept: np.ndarray, *, hold_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """The rows to train on, and those that are set aside for validation."""
    held = np.zeros(len(kept), dtype=bool)
    if hold_out:
        held = checking.hold_out(measures.source_hash[kept], checking.held_out_size(len(kept)))
    return kept[~held].astype(np.uint32), kept[held]


class _HeldOut(NamedTuple):
    pairs: dict[str, list[Pair]]  # of "valid", and of "test" where there is one
    accounts: dict[str, Checked]
    note: str  # that valid was carved out of train, or nothing


def _held_out(sources: _Sources, report: Checked, train: int, set_aside: list[Pair]) -> _HeldOut:
    """The text to judge by; refuses where there is too little of it, or of the training text."""
    note = ""
    if sources.valid is None:
        note = (
            f"{len(set_aside):,} of the {report.kept:,} training pairs were set aside for validation, because no "
            "validation text was given (chosen by a hash of the source: the same ones every time)"
        )
        # With too few pairs for a slice, the training text is what is too small: say that.
        left = train if set_aside else 0
        _refuse_few(left, 2, "training", sources.train, report, set_aside=len(set_aside))
        splits = {"valid": check_held_out(set_aside)}
    else:
        _refuse_few(train, 2, "training", sources.train, report)
        splits = {"valid": check_held_out(read_pairs(sources.valid))}
        _refuse_few(len(splits["valid"][0]), 1, "validation", [sources.valid], splits["valid"][1])
    if sources.test is not None:
        splits["test"] = check_held_out(read_pairs(sources.test))
        _refuse_few(len(splits["test"][0]), 1, "test", [sources.test], splits["test"][1])
    pairs = {split: found for split, (found, _) in splits.items()}
    return _HeldOut(pairs, {split: account for split, (_, account) in splits.items()}, note)


def _fingerprints(train: Any, valid: list[Pair]) -> dict[str, str]:
    """Of the training text, and of the training and validation text together."""
    both = train.copy()
    both.update(_as_text([pair.source for pair in valid], [pair.target for pair in valid]))
    return {"digest": train.hexdigest(), "fingerprint": both.hexdigest()}


def _read_all(
    folder: Path, corpora: Sequence[ParallelFiles], names: list[str], tell: Tell
) -> tuple[Lines, Measures, list[int]]:
    """Writes all lines, normalised; gives them, what was measured, and the row behind the last of each corpus."""
    measures, ends, rows = checking.Growing(), [], 0
    with LinesWriter(folder) as writer:
        for files in corpora:
            for block in each(_measured, read_blocks(files)):
                measures.add(block.measures)
                count = len(block.measures)
                writer.write(names.index(block.file), block.first, count, block.source, block.target)
                rows += count
                tell("reading", rows, None)
            ends.append(rows)
    return Lines(folder, writer.blocks, names), measures.whole(), ends


class _MeasuredBlock(NamedTuple):
    file: str
    first: int
    measures: Measures
    source: bytes
    target: bytes


def _measured(block: Block) -> _MeasuredBlock:
    sources, targets = block.texts()
    texts = ("\n".join([*side, ""]).encode() for side in (sources, targets))
    return _MeasuredBlock(block.file, block.first, checking.measure(sources, targets), *texts)


class _Seen(NamedTuple):
    """What was found in the text once it was decided which of it is kept."""

    scripts: tuple[dict[str, int], dict[str, int]]
    digest: Any  # of all training pairs
    pairs: dict[int, Pair]  # those that were wanted, by row


class _Rows(NamedTuple):
    """Rows of a block, counted from its first."""

    block: int
    kept: np.ndarray
    train: np.ndarray
    wanted: np.ndarray


@dataclass(frozen=True)
class _LookAt:
    """Reads a block again; a class and not a closure, so that it can be sent to another process."""

    lines: Lines

    def __call__(self, rows: _Rows) -> tuple[dict[str, int], dict[str, int], bytes, list[tuple[int, str, str]]]:
        first, _ = self.lines.rows_of(rows.block)
        sources, targets = self.lines.texts(rows.block)
        kept, used = rows.kept.tolist(), rows.train.tolist()
        return (
            characters.scripts([sources[row] for row in kept]),
            characters.scripts([targets[row] for row in kept]),
            _as_text([sources[row] for row in used], [targets[row] for row in used]),
            [(first + row, sources[row], targets[row]) for row in rows.wanted.tolist()],
        )


def _look(lines: Lines, codes: np.ndarray, train: np.ndarray, wanted: np.ndarray, tell: Tell) -> _Seen:
    """Goes through the lines once more."""

    def rows() -> Iterator[_Rows]:
        for block in range(lines.blocks):
            first, end = lines.rows_of(block)
            kept = np.flatnonzero(codes[first:end] == 0)
            yield _Rows(block, kept, lines.within(block, train), lines.within(block, wanted))

    digest, pairs = blake2b(digest_size=16), {}
    sources: list[dict[str, int]] = []
    targets: list[dict[str, int]] = []
    for block, (source_scripts, target_scripts, text, found) in enumerate(each(_LookAt(lines), rows())):
        sources.append(source_scripts)
        targets.append(target_scripts)
        digest.update(text)
        for row, source, target in found:
            place = lines.place(row)
            pairs[row] = Pair(source, target, place.line, place.file)
        tell("checking", lines.rows_of(block)[1], len(lines))
    return _Seen((characters.most_frequent_first(sources), characters.most_frequent_first(targets)), digest, pairs)


def _as_text(sources: Sequence[str], targets: Sequence[str]) -> bytes:
    return "".join([f"{source}\t{target}\n" for source, target in zip(sources, targets, strict=True)]).encode()


def check_held_out(pairs: Iterable[Pair]) -> tuple[list[Pair], Checked]:
    """The pairs to judge a model by, and the account of the others."""
    every = list(pairs)
    measures = _measures_of(every)
    decision = checking.decide_held_out(measures)
    kept = [every[row] for row in decision.kept.tolist()]
    sides = ([pair.source for pair in kept], [pair.target for pair in kept])
    scripts = tuple(characters.most_frequent_first([characters.scripts(side)]) for side in sides)
    return kept, checked(measures, decision, (scripts[0], scripts[1]), every.__getitem__)


def _measures_of(pairs: Sequence[Pair]) -> Measures:
    return checking.measure([pair.source for pair in pairs], [pair.target for pair in pairs])


def _refuse_few(
    left: int, needed: int, name: str, files: Sequence[ParallelFiles], report: Checked, *, set_aside: int = 0
) -> None:
    if left >= needed:
        return
    why = [f"{dropped.count:,} {reason}" for reason, dropped in report.dropped.items() if dropped.count]
    account = f"{report.read:,} read, {report.kept:,} usable"
    account += f"; dropped: {', '.join(why)}" if why else ""
    account += f"; {set_aside:,} set aside for validation" if set_aside else ""
    hint = "give more text"
    if report.read > report.kept:
        hint += ", or look at what was dropped: " + next(
            f"{dropped.examples[0].file}:{dropped.examples[0].line}"
            for dropped in report.dropped.values()
            if dropped.examples
        )
    where = ", ".join(map(str, files))
    raise UserError(f"The {name} text has too few usable pairs ({account})", where=where, hint=hint)


def _with_numbers(plain: Any, names: list[str]) -> Any:
    """A report with the files by number …"""
    return _files_changed(plain, names.index)


def _with_names(plain: Any, names: list[str]) -> Any:
    """… and back."""
    return _files_changed(plain, names.__getitem__)


def _files_changed(plain: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(plain, list):
        return [_files_changed(item, change) for item in plain]
    if isinstance(plain, dict):
        return {
            key: change(value) if key in ("file", "train_file") else _files_changed(value, change)
            for key, value in plain.items()
        }
    return plain


def _plain_pairs(pairs: list[Pair], names: list[str]) -> list[list[Any]]:
    return [[pair.source, pair.target, pair.line, names.index(pair.file)] for pair in pairs]


def _pairs_from(plain: list[list[Any]], names: list[str]) -> list[Pair]:
    return [Pair(source, target, line, names[file]) for source, target, line, file in plain]


# Vocabulary and ids -------------------------------------------


@dataclass(frozen=True)
class _BothSides:
    """The lines of training pairs, as often as one wants to go through them."""

    text: Text
    positions: np.ndarray | None

    def __iter__(self) -> Iterator[str]:
        for pair in self.text.pairs(self.positions):
            yield pair.source
            yield pair.target


def learn_vocabulary(
    text: Text, vocab: int, tell: Tell = silent, *, kind: str = "bpe", lowercase: bool = False
) -> Tokenizer:
    """The tokenizer for a corpus, from all of its training pairs or from `VOCABULARY_PAIRS` spread evenly over it."""
    positions = vocabulary_sample(len(text))

    def learn(folder: Path) -> dict[str, Any]:
        tell("learning the vocabulary", 0, None)
        tokenizer = Tokenizer.of_text(_BothSides(text, positions), vocab=vocab, kind=kind, lowercase=lowercase)
        (folder / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
        return {}

    parts = [tokenizers.__version__, text.digest, vocab, kind, lowercase, VOCABULARY_PAIRS, LEARNT]
    folder, _ = text.cache.kept("vocabulary", parts, learn)
    return Tokenizer.load(folder / "tokenizer.json")


def vocabulary_sample(pairs: int) -> np.ndarray | None:
    """Which pairs the vocabulary is learnt from; None for all."""
    if pairs <= VOCABULARY_PAIRS:
        return None
    return np.arange(VOCABULARY_PAIRS, dtype=np.int64) * pairs // VOCABULARY_PAIRS


@dataclass
class _Encode:
    """Encodes rows of a block; a class and not a closure, so that it can be sent to another process."""

    lines: Lines
    tokenizer: Tokenizer
    dtype: np.dtype[Any]

    @cached_property
    def encoder(self) -> LinesEncoder:
        return LinesEncoder(self.tokenizer)

    def __call__(self, block_and_rows: tuple[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        block, rows = block_and_rows
        sides = self.lines.texts(block)
        ids, lengths = self.encoder([side[row] for row in rows.tolist() for side in sides])
        return ids.astype(self.dtype), lengths


def encode(text: Text, tokenizer: Tokenizer, tell: Tell = silent) -> Ids:
    """The training pairs as ids, from the disk."""
    lines, rows = text.lines, text.rows

    def write(folder: Path) -> dict[str, Any]:
        blocks = ((block, lines.within(block, rows)) for block in range(lines.blocks))
        with IdsWriter(folder, len(tokenizer)) as writer:
            encoded = each(_Encode(lines, tokenizer, writer.dtype), blocks)
            for block, (ids, lengths) in enumerate(encoded):
                writer.write(ids, lengths)
                tell("encoding", lines.rows_of(block)[1], len(lines))
        return writer.about()

    told = json.loads(tokenizer.to_json())
    folder, about = text.cache.kept("ids", [tokenizers.__version__, text.digest, told], write)
    return Ids.open(folder, about)
