"""Preparation of parallel text: read, filter and report the files, train the tokenizer, encode the pairs.

A corpus of any size is processed in blocks on all cores, with 32 bytes of memory per pair. Results are cached by
content (`cache.py`), so that a corpus is prepared only once.
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

from glassformer.data import filtering
from glassformer.data.cache import Cache
from glassformer.data.filtering import PairMeasures
from glassformer.data.parallel_text import ParallelFiles, RawBlock, SentencePair, read_blocks, read_pairs
from glassformer.data.process_pool import parallel_map
from glassformer.data.report import DROP_REASONS, MAX_EXAMPLES, PairSplit, ParallelReport, describe_leakage, pair_split
from glassformer.data.store import EncodedPairs, EncodedPairsWriter, LinesWriter, StoredLines, TrainingText
from glassformer.errors import UserError
from glassformer.settings import Limits
from glassformer.text import characters
from glassformer.text.caching_encoder import CachingEncoder
from glassformer.text.tokenizer import Tokenizer

# Training a tokenizer on more pairs takes more time and memory and hardly changes the vocabulary.
VOCABULARY_PAIRS = 1_000_000
TRAINER_VERSION = 2  # part of the cache key: increase it if the tokenizer training changes

ProgressCallback = Callable[[str, int, int | None], None]  # activity, pairs done, total number of pairs if known


def no_progress(activity: str, done: int, total: int | None) -> None:
    """Report no progress."""


class Splits(NamedTuple):
    """The training pairs on disk, and the held-out pairs in memory."""

    train: TrainingText
    valid: list[SentencePair]
    test: list[SentencePair]


def prepare_corpus(
    train: ParallelFiles | Sequence[ParallelFiles],
    valid: ParallelFiles | None,
    test: ParallelFiles | None,
    limits: Limits,
    *,
    cache: Cache | None = None,
    progress: ProgressCallback = no_progress,
) -> tuple[Splits, ParallelReport]:
    """Read, filter and report the training, validation and test set.

    Several training corpora are concatenated; a pair that occurs in two of them counts in the first. Without `valid`,
    part of train is held out. Held-out pairs that also occur in train are reported, not removed. Raises UserError if
    fewer than two training pairs or no held-out pair are left.
    """
    cache = cache or Cache()
    corpora = [train] if isinstance(train, ParallelFiles) else list(train)
    rules = Limits(**{name: getattr(limits, name) for name in Limits.model_fields})
    sources = _Sources(corpora, valid, test)
    unchanged = cache.unchanged(sources.files())
    parts = [sources.digests(cache), rules.model_dump()]

    def check(folder: Path) -> dict[str, Any]:
        about = _check(folder, sources, rules, progress)
        if not unchanged():  # otherwise the cache entry would not match its key
            raise UserError(
                "The text files changed while they were read.", where=str(sources), hint="run the command again"
            )
        return about

    folder, about = cache.get_or_create("text", parts, check)
    names = sources.names()
    text = TrainingText(folder, about, names, cache)
    held_out = (_pairs_from_json(about[split], names) for split in ("valid", "test"))
    report = ParallelReport.from_json(_map_files(about["report"], names.__getitem__))
    return Splits(text, *held_out), replace(report, limits=limits)


@dataclass(frozen=True)
class _Sources:
    """The text files of a run."""

    train: list[ParallelFiles]
    valid: ParallelFiles | None
    test: ParallelFiles | None

    def names(self) -> list[str]:
        """Return the file names. The cache stores their indices, so that it also serves a renamed copy of a corpus."""
        return [str(path) for group in self._groups() if group for path in group.source]

    def __str__(self) -> str:
        return ", ".join(map(str, self.files()))

    def files(self) -> list[Path]:
        return [path for group in self._groups() if group for path in (*group.source, *group.target)]

    def digests(self, cache: Cache) -> list[Any]:
        every = iter(cache.digests(self.files()))
        return [
            [group.format, [next(every) for _ in group.source], [next(every) for _ in group.target]] if group else None
            for group in self._groups()
        ]

    def _groups(self) -> list[ParallelFiles | None]:
        return [*self.train, self.valid, self.test]


# Filtering and reporting --------------------------------------


def _check(folder: Path, sources: _Sources, limits: Limits, progress: ProgressCallback) -> dict[str, Any]:
    """Read and filter all files, write the lines and the rows in use, and return the index of the cache entry."""
    names = sources.names()
    lines, measures, ends = _read_all(folder, sources.train, names, progress)
    result = filtering.filter_train(measures, limits)
    train, valid = _split_rows(measures, result.kept, hold_out=sources.valid is None)
    examples = (result.rows(reason)[:MAX_EXAMPLES] for reason in DROP_REASONS)
    seen = _second_pass(lines, result.codes, train, np.unique(np.concatenate([valid, *examples])), progress)
    report = pair_split(measures, result, seen.scripts, seen.pairs.__getitem__)
    held_out = _held_out(sources, report, len(train), [seen.pairs[row] for row in valid.tolist()])
    leaks = {
        split: describe_leakage(pairs, filtering.find_in_train(measures, train, _measures_of(pairs)), lines.place)
        for split, pairs in held_out.pairs.items()
    }
    whole = ParallelReport(
        "pairs",
        {"train": report} | held_out.reports,
        held_out=held_out.note,
        leakage=leaks,
        pairs={"train": len(train)} | {split: len(pairs) for split, pairs in held_out.pairs.items()},
    )
    np.save(folder / "train.npy", train)
    return {
        **_fingerprints(seen.digest, held_out.pairs["valid"]),
        "corpora": np.diff(np.searchsorted(train, [0, *ends])).tolist(),
        "blocks": lines.index,
        "report": _map_files(whole.to_json() | {"limits": {}}, names.index),
        **{split: _pairs_to_json(held_out.pairs.get(split, []), names) for split in ("valid", "test")},
    }


def _split_rows(measures: PairMeasures, kept: np.ndarray, *, hold_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on, and the rows held out for validation."""
    held = np.zeros(len(kept), dtype=bool)
    if hold_out:
        held = filtering.hold_out(measures.source_hash[kept], filtering.held_out_size(len(kept)))
    return kept[~held].astype(np.uint32), kept[held]


class _HeldOut(NamedTuple):
    pairs: dict[str, list[SentencePair]]  # of "valid", and of "test" if given
    reports: dict[str, PairSplit]
    note: str  # says that valid was taken from train, or is empty


def _held_out(sources: _Sources, report: PairSplit, train: int, from_train: list[SentencePair]) -> _HeldOut:
    """Return the held-out pairs. Raise UserError if there are too few of them, or of the training pairs."""
    note = ""
    if sources.valid is None:
        note = (
            f"{len(from_train):,} of the {report.kept:,} training pairs were held out for validation, because no "
            "validation set was given (chosen by a hash of the source, so always the same pairs)"
        )
        # If nothing can be held out, the error is that the training set is too small.
        left = train if from_train else 0
        _check_size(left, 2, "training", sources.train, report, held_out=len(from_train))
        splits = {"valid": check_held_out(from_train)}
    else:
        _check_size(train, 2, "training", sources.train, report)
        splits = {"valid": check_held_out(read_pairs(sources.valid))}
        _check_size(len(splits["valid"][0]), 1, "validation", [sources.valid], splits["valid"][1])
    if sources.test is not None:
        splits["test"] = check_held_out(read_pairs(sources.test))
        _check_size(len(splits["test"][0]), 1, "test", [sources.test], splits["test"][1])
    pairs = {split: found for split, (found, _) in splits.items()}
    return _HeldOut(pairs, {split: report for split, (_, report) in splits.items()}, note)


def _fingerprints(train: Any, valid: list[SentencePair]) -> dict[str, str]:
    """Return the hash of the training pairs, and of the training and validation pairs together."""
    both = train.copy()
    both.update(_tsv_bytes([pair.source for pair in valid], [pair.target for pair in valid]))
    return {"digest": train.hexdigest(), "fingerprint": both.hexdigest()}


def _read_all(
    folder: Path, corpora: Sequence[ParallelFiles], names: list[str], progress: ProgressCallback
) -> tuple[StoredLines, PairMeasures, list[int]]:
    """Write all lines, normalized. Return them, their measures, and the end row of each corpus."""
    measures, ends, rows = filtering.MeasuresBuilder(), [], 0
    with LinesWriter(folder) as writer:
        for files in corpora:
            for block in parallel_map(_measure_block, read_blocks(files)):
                measures.add(block.measures)
                count = len(block.measures)
                writer.write(names.index(block.file), block.first, count, block.source, block.target)
                rows += count
                progress("reading", rows, None)
            ends.append(rows)
    return StoredLines(folder, writer.blocks, names), measures.build(), ends


class _MeasuredBlock(NamedTuple):
    """A block of normalized lines, encoded as UTF-8, and its measures."""

    file: str
    first: int
    measures: PairMeasures
    source: bytes
    target: bytes


def _measure_block(block: RawBlock) -> _MeasuredBlock:
    sources, targets = block.texts()
    texts = ("\n".join([*side, ""]).encode() for side in (sources, targets))
    return _MeasuredBlock(block.file, block.first, filtering.measure_pairs(sources, targets), *texts)


class _Seen(NamedTuple):
    """Results of the second pass over the lines."""

    scripts: tuple[dict[str, int], dict[str, int]]
    digest: Any  # hash of all training pairs
    pairs: dict[int, SentencePair]  # the requested pairs, by row


class _Rows(NamedTuple):
    """Rows of a block, counted from its first row."""

    block: int
    kept: np.ndarray
    train: np.ndarray
    wanted: np.ndarray


@dataclass(frozen=True)
class _ReadBlock:
    """Reads one block in the second pass. A class instead of a closure, so that it can be pickled."""

    lines: StoredLines

    def __call__(self, rows: _Rows) -> tuple[dict[str, int], dict[str, int], bytes, list[tuple[int, str, str]]]:
        first, _ = self.lines.rows_of(rows.block)
        sources, targets = self.lines.texts(rows.block)
        kept, used = rows.kept.tolist(), rows.train.tolist()
        return (
            characters.count_scripts([sources[row] for row in kept]),
            characters.count_scripts([targets[row] for row in kept]),
            _tsv_bytes([sources[row] for row in used], [targets[row] for row in used]),
            [(first + row, sources[row], targets[row]) for row in rows.wanted.tolist()],
        )


def _second_pass(
    lines: StoredLines, codes: np.ndarray, train: np.ndarray, wanted: np.ndarray, progress: ProgressCallback
) -> _Seen:
    """Read the lines again, now that it is known which pairs are kept."""

    def rows() -> Iterator[_Rows]:
        for block in range(lines.blocks):
            first, end = lines.rows_of(block)
            kept = np.flatnonzero(codes[first:end] == 0)
            yield _Rows(block, kept, lines.within(block, train), lines.within(block, wanted))

    digest, pairs = blake2b(digest_size=16), {}
    sources: list[dict[str, int]] = []
    targets: list[dict[str, int]] = []
    for block, (source_scripts, target_scripts, text, found) in enumerate(parallel_map(_ReadBlock(lines), rows())):
        sources.append(source_scripts)
        targets.append(target_scripts)
        digest.update(text)
        for row, source, target in found:
            place = lines.place(row)
            pairs[row] = SentencePair(source, target, place.line, place.file)
        progress("checking", lines.rows_of(block)[1], len(lines))
    return _Seen((characters.merge_script_counts(sources), characters.merge_script_counts(targets)), digest, pairs)


def _tsv_bytes(sources: Sequence[str], targets: Sequence[str]) -> bytes:
    return "".join([f"{source}\t{target}\n" for source, target in zip(sources, targets, strict=True)]).encode()


def check_held_out(pairs: Iterable[SentencePair]) -> tuple[list[SentencePair], PairSplit]:
    """Return the usable pairs of a validation or test set, and its report."""
    every = list(pairs)
    measures = _measures_of(every)
    result = filtering.filter_held_out(measures)
    kept = [every[row] for row in result.kept.tolist()]
    sides = ([pair.source for pair in kept], [pair.target for pair in kept])
    scripts = tuple(characters.merge_script_counts([characters.count_scripts(side)]) for side in sides)
    return kept, pair_split(measures, result, (scripts[0], scripts[1]), every.__getitem__)


def _measures_of(pairs: Sequence[SentencePair]) -> PairMeasures:
    return filtering.measure_pairs([pair.source for pair in pairs], [pair.target for pair in pairs])


def _check_size(
    left: int, needed: int, name: str, files: Sequence[ParallelFiles], report: PairSplit, *, held_out: int = 0
) -> None:
    if left >= needed:
        return
    why = [f"{dropped.count:,} {reason}" for reason, dropped in report.dropped.items() if dropped.count]
    counts = f"{report.read:,} read, {report.kept:,} usable"
    counts += f"; dropped: {', '.join(why)}" if why else ""
    counts += f"; {held_out:,} held out for validation" if held_out else ""
    hint = "add more pairs"
    if report.read > report.kept:
        hint += ", or check why pairs were dropped, for example " + next(
            f"{dropped.examples[0].file}:{dropped.examples[0].line}"
            for dropped in report.dropped.values()
            if dropped.examples
        )
    where = ", ".join(map(str, files))
    raise UserError(f"The {name} set has too few usable pairs ({counts})", where=where, hint=hint)


def _map_files(plain: Any, change: Callable[[Any], Any]) -> Any:
    """Apply `change` to all file names (or file numbers) of a report in JSON types."""
    if isinstance(plain, list):
        return [_map_files(item, change) for item in plain]
    if isinstance(plain, dict):
        return {
            key: change(value) if key in ("file", "train_file") else _map_files(value, change)
            for key, value in plain.items()
        }
    return plain


def _pairs_to_json(pairs: list[SentencePair], names: list[str]) -> list[list[Any]]:
    return [[pair.source, pair.target, pair.line, names.index(pair.file)] for pair in pairs]


def _pairs_from_json(plain: list[list[Any]], names: list[str]) -> list[SentencePair]:
    return [SentencePair(source, target, line, names[file]) for source, target, line, file in plain]


# Tokenizer and token ids --------------------------------------


@dataclass(frozen=True)
class _BothSides:
    """Re-iterable over the sources and targets of training pairs."""

    text: TrainingText
    positions: np.ndarray | None

    def __iter__(self) -> Iterator[str]:
        for pair in self.text.pairs(self.positions):
            yield pair.source
            yield pair.target


def train_tokenizer(
    text: TrainingText,
    vocab: int,
    progress: ProgressCallback = no_progress,
    *,
    kind: str = "bpe",
    lowercase: bool = False,
) -> Tokenizer:
    """Train the tokenizer on all training pairs, or on `VOCABULARY_PAIRS` of them at equal distances."""
    positions = vocabulary_sample(len(text))

    def learn(folder: Path) -> dict[str, Any]:
        progress("training the tokenizer", 0, None)
        tokenizer = Tokenizer.train(_BothSides(text, positions), vocab=vocab, kind=kind, lowercase=lowercase)
        (folder / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
        return {}

    parts = [tokenizers.__version__, text.digest, vocab, kind, lowercase, VOCABULARY_PAIRS, TRAINER_VERSION]
    folder, _ = text.cache.get_or_create("vocabulary", parts, learn)
    return Tokenizer.load(folder / "tokenizer.json")


def vocabulary_sample(pairs: int) -> np.ndarray | None:
    """Return the indices of the pairs that the tokenizer is trained on; None for all."""
    if pairs <= VOCABULARY_PAIRS:
        return None
    return np.arange(VOCABULARY_PAIRS, dtype=np.int64) * pairs // VOCABULARY_PAIRS


@dataclass
class _Encode:
    """Encodes rows of one block. A class instead of a closure, so that it can be pickled."""

    lines: StoredLines
    tokenizer: Tokenizer
    dtype: np.dtype[Any]

    @cached_property
    def encoder(self) -> CachingEncoder:
        return CachingEncoder(self.tokenizer)

    def __call__(self, block_and_rows: tuple[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        block, rows = block_and_rows
        sides = self.lines.texts(block)
        ids, lengths = self.encoder([side[row] for row in rows.tolist() for side in sides])
        return ids.astype(self.dtype), lengths


def encode_corpus(text: TrainingText, tokenizer: Tokenizer, progress: ProgressCallback = no_progress) -> EncodedPairs:
    """Return the training pairs as token ids, memory-mapped from the cache."""
    lines, rows = text.lines, text.rows

    def write(folder: Path) -> dict[str, Any]:
        blocks = ((block, lines.within(block, rows)) for block in range(lines.blocks))
        with EncodedPairsWriter(folder, len(tokenizer)) as writer:
            encoded = parallel_map(_Encode(lines, tokenizer, writer.dtype), blocks)
            for block, (ids, lengths) in enumerate(encoded):
                writer.write(ids, lengths)
                progress("encoding", lines.rows_of(block)[1], len(lines))
        return writer.about()

    parts = [tokenizers.__version__, text.digest, json.loads(tokenizer.to_json())]
    folder, about = text.cache.get_or_create("ids", parts, write)
    return EncodedPairs.open(folder, about)
