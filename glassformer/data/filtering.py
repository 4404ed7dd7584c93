"""Filtering of sentence pairs, choice of the held-out examples, and overlap between splits.

Each pair is measured once, in any process: the lengths and a hash of both sides. Decisions that depend on the whole
corpus use these 32 bytes per pair instead of the text. Two texts count as equal if their 64-bit hashes are equal; the
probability of any collision among ten million texts is 1 in 300,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, TypeVar

import numpy as np

from glassformer.errors import UserError
from glassformer.settings import Limits

# In the order in which they are tested: a pair is counted under the first that applies.
DROP_REASONS = {
    "empty": "one side has no text",
    "too_long": "a side has more words or characters than data.max_words or data.max_characters",
    "length_ratio": "the ratio of the lengths is far from the median of the corpus",
    "duplicate": "the same pair occurred before",
    "identical": "source and target are the same text",
}
REASON_CODES = {reason: code for code, reason in enumerate(DROP_REASONS, 1)}  # 0 means kept

PAIRS_PER_CHUNK = 1_000_000  # bounds the memory of look-ups

Example = TypeVar("Example")


class PairMeasures(NamedTuple):
    """Measures of each pair: characters and words (uint32) and hashes (uint64) of both sides."""

    source_characters: np.ndarray
    target_characters: np.ndarray
    source_words: np.ndarray
    target_words: np.ndarray
    source_hash: np.ndarray
    target_hash: np.ndarray

    def __len__(self) -> int:
        return len(self.source_hash)

    def select(self, rows: np.ndarray) -> PairMeasures:
        return PairMeasures(*(array[rows] for array in self))


def measure_pairs(sources: Sequence[str], targets: Sequence[str]) -> PairMeasures:
    """Return the measures of normalized pairs."""
    return PairMeasures(
        _uint32(map(len, sources), len(sources)),
        _uint32(map(len, targets), len(targets)),
        _uint32((len(line.split()) for line in sources), len(sources)),
        _uint32((len(line.split()) for line in targets), len(targets)),
        text_hashes(sources),
        text_hashes(targets),
    )


class MeasuresBuilder:
    """Collects the measures of a corpus block by block, in arrays that grow in place to limit the peak memory."""

    def __init__(self) -> None:
        self._columns = [array.copy() for array in measure_pairs([], [])]
        self._count = 0

    def add(self, part: PairMeasures) -> None:
        end = self._count + len(part)
        for column, new in zip(self._columns, part, strict=True):
            if end > len(column):
                column.resize(max(end, len(column) + PAIRS_PER_CHUNK), refcheck=False)
            column[self._count : end] = new
        self._count = end

    def build(self) -> PairMeasures:
        for column in self._columns:
            column.resize(self._count, refcheck=False)
        return PairMeasures(*self._columns)


def _uint32(numbers: Iterable[int], count: int) -> np.ndarray:
    return np.fromiter(numbers, dtype=np.uint32, count=count)


def text_hashes(lines: Sequence[str]) -> np.ndarray:
    """Return 64 bits of BLAKE2b for each line, big-endian."""
    digests = b"".join([blake2b(line.encode(), digest_size=8).digest() for line in lines])
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def _pair_hashes(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Combine two hashes. The multiplication by an odd number makes (a, b) and (b, a) differ."""
    mixed = source * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed += target
    return mixed


# Filtering --------------------------------------------------------------------


@dataclass(frozen=True)
class FilterResult:
    """One code per pair: 0 if it is kept, otherwise `REASON_CODES` of the reason."""

    codes: np.ndarray  # uint8
    correlation: float | None = None  # of source and target length in characters, before the ratio rule
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> np.ndarray:
        return np.flatnonzero(self.codes == 0)

    def rows(self, reason: str) -> np.ndarray:
        return np.flatnonzero(self.codes == REASON_CODES[reason])


def filter_train(measures: PairMeasures, limits: Limits) -> FilterResult:
    """Drop training pairs that are empty, too long, misaligned, repeated or untranslated."""
    codes, notes = _empty(measures), []
    too_long = np.maximum(measures.source_characters, measures.target_characters) > limits.max_characters
    too_long |= np.maximum(measures.source_words, measures.target_words) > limits.max_words
    _mark(codes, "too_long", np.flatnonzero(too_long & (codes == 0)))
    # Computed before the ratio rule, which removes the worst pairs of a misaligned corpus and would hide the problem.
    left = np.flatnonzero(codes == 0)
    correlation = _length_correlation(measures, left)
    _mark(codes, "length_ratio", left[_far_from_median(measures, left, limits.max_ratio)])
    if limits.drop_duplicates:
        left = np.flatnonzero(codes == 0)
        _mark(codes, "duplicate", left[_seen_before(measures, left)])
    if limits.drop_identical:
        left = np.flatnonzero(codes == 0)
        same = measures.source_hash[left] == measures.target_hash[left]
        if 2 * same.sum() > len(same):
            notes.append(
                f"{same.sum():,} of {len(same):,} pairs have the same text on both sides: "
                "the task appears to be copying, so they are kept"
            )
        else:
            _mark(codes, "identical", left[same])
    return FilterResult(codes, correlation, tuple(notes))


def filter_held_out(measures: PairMeasures) -> FilterResult:
    """Drop only pairs with an empty side: scores must not depend on the filter rules."""
    codes = _empty(measures)
    return FilterResult(codes, _length_correlation(measures, np.flatnonzero(codes == 0)))


def _mark(codes: np.ndarray, reason: str, rows: np.ndarray) -> None:
    codes[rows] = REASON_CODES[reason]


def _empty(measures: PairMeasures) -> np.ndarray:
    empty = (measures.source_words == 0) | (measures.target_words == 0)
    return empty.astype(np.uint8) * np.uint8(REASON_CODES["empty"])


def _far_from_median(measures: PairMeasures, rows: np.ndarray, max_ratio: float) -> np.ndarray:
    """Compare the length ratio with the median: Korean is always shorter than English, a summary than its text."""
    if not len(rows):
        return np.zeros(0, dtype=bool)
    # + 10 because the ratio of short sentences varies: "Go." may become "Allez-vous-en !"
    ratio = (measures.source_characters[rows] + 10.0) / (measures.target_characters[rows] + 10.0)
    ratio /= np.median(ratio)
    return (ratio > max_ratio) | (ratio < 1 / max_ratio)


def _seen_before(measures: PairMeasures, rows: np.ndarray) -> np.ndarray:
    pairs = _pair_hashes(measures.source_hash[rows], measures.target_hash[rows])
    order = np.argsort(pairs, kind="stable")  # equal pairs become neighbours, in their original order
    pairs = pairs[order]
    repeated = np.zeros(len(rows), dtype=bool)
    repeated[order[1:]] = pairs[1:] == pairs[:-1]
    return repeated


def _length_correlation(measures: PairMeasures, rows: np.ndarray) -> float | None:
    if len(rows) < 2:
        return None
    source, target = (side[rows].astype(np.float64) for side in measures[:2])
    if np.ptp(source) == 0 or np.ptp(target) == 0:
        return None
    source -= source.mean()
    target -= target.mean()
    return float(source @ target / np.sqrt((source @ source) * (target @ target)))


# Held-out examples and their overlap with train --------------------------------


def held_out_size(count: int) -> int:
    """Return how many of `count` pairs to hold out: 2 %, from 50 to 1500, but at most a tenth and at least one."""
    return min(max(50, min(1500, count // 50)), max(1, count // 10))


def hold_out(source_hash: np.ndarray, count: int) -> np.ndarray:
    """Return for each pair whether it is held out; at most `count` are.

    The choice depends on the text alone, so it is the same if the corpus is shuffled. All pairs with the same source
    go to the same split. If every source has more than `count` pairs, the pairs of one source are held out
    nevertheless; if there is only one source, nothing is held out.
    """
    sources, sizes = np.unique(source_hash, return_counts=True)  # ascending
    chosen, room = [], count
    for i in np.flatnonzero(sizes <= count).tolist():
        if room <= 0:
            break
        if sizes[i] <= room:
            chosen.append(i)
            room -= int(sizes[i])
    if not chosen and count > 0 and len(sources) > 1:
        chosen.append(int(sizes.argmin()))
    return _index_in(sources[chosen], source_hash) >= 0


def split_off_validation(
    examples: Sequence[Example], texts: Sequence[str], where: str
) -> tuple[list[Example], list[Example]]:
    """Return training and validation examples. The choice depends on the text alone: equal texts stay together."""
    held = hold_out(text_hashes(texts), held_out_size(len(examples))) if examples else np.zeros(0, dtype=bool)
    train = [example for example, out in zip(examples, held, strict=True) if not out]
    valid = [example for example, out in zip(examples, held, strict=True) if out]
    if not train or not valid:
        raise UserError(
            f"There are too few different examples to hold out a validation set: {len(examples):,}.",
            where=where,
            hint="add training examples, or give a validation set with --valid",
        )
    return train, valid


def find_in_train(train: PairMeasures, rows: np.ndarray, held_out: PairMeasures) -> dict[str, np.ndarray]:
    """Return for each held-out pair the first of `rows` with the same pair, source or target; −1 if none."""
    found = {}
    for what in ("pair", "source", "target"):
        wanted, place = np.unique(_hashes_of(what, held_out), return_inverse=True)
        first = np.full(len(wanted), len(train), dtype=np.int64)
        for start in range(0, len(rows), PAIRS_PER_CHUNK):
            some = rows[start : start + PAIRS_PER_CHUNK]
            here = _hashes_of(what, train.select(some))
            at = _index_in(wanted, here)
            hits = np.flatnonzero(at >= 0)
            np.minimum.at(first, at[hits], some[hits])
        found[what] = np.where(first < len(train), first, -1)[place]
    return found


def _index_in(few: np.ndarray, many: np.ndarray) -> np.ndarray:
    """Return the index of each of `many` in the ascending array `few`, or −1. np.isin would sort `many`."""
    at = np.searchsorted(few, many)
    at[at == len(few)] = 0
    return np.where(few[at] == many, at, -1) if len(few) else np.full(len(many), -1)


def _hashes_of(what: str, measures: PairMeasures) -> np.ndarray:
    if what == "pair":
        return _pair_hashes(measures.source_hash, measures.target_hash)
    return measures.source_hash if what == "source" else measures.target_hash
