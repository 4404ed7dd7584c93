"""Which pairs are worth learning from, and which are set aside to judge by: decided on small arrays, not on text.

Each pair is measured once, in any process: its lengths, and a hash of each side. All decisions that need to see the
whole corpus are then made on 32 bytes a pair. Two texts count as equal if their 64-bit hashes are: among ten million
different ones, the chance that any two meet is one in 300,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from glassformer.settings import Limits

# In the order in which they are tried: a pair is counted under the first that it meets.
REASONS = {
    "empty": "one side has no text",
    "too_long": "a side is over the limit of words or characters",
    "length_ratio": "one side is far longer than usual for the other",
    "duplicate": "the same pair came before",
    "identical": "source and target are the same text",
}
CODES = {reason: code for code, reason in enumerate(REASONS, 1)}  # 0: the pair is kept

AT_ONCE = 1_000_000  # pairs looked up at a time, to bound the memory


class Measures(NamedTuple):
    """What is known of each pair: characters and words of both sides (uint32), hashes of both (uint64)."""

    source_characters: np.ndarray
    target_characters: np.ndarray
    source_words: np.ndarray
    target_words: np.ndarray
    source_hash: np.ndarray
    target_hash: np.ndarray

    def __len__(self) -> int:
        return len(self.source_hash)

    def of(self, rows: np.ndarray) -> Measures:
        return Measures(*(array[rows] for array in self))


def measure(sources: Sequence[str], targets: Sequence[str]) -> Measures:
    return Measures(
        _counted(map(len, sources), len(sources)),
        _counted(map(len, targets), len(targets)),
        _counted((len(line.split()) for line in sources), len(sources)),
        _counted((len(line.split()) for line in targets), len(targets)),
        hashes(sources),
        hashes(targets),
    )


class Growing:
    """Measures of a corpus, part after part. Large arrays grow in their place, where joining many would take twice."""

    def __init__(self) -> None:
        self._columns = [array.copy() for array in measure([], [])]
        self._count = 0

    def add(self, part: Measures) -> None:
        end = self._count + len(part)
        for column, new in zip(self._columns, part, strict=True):
            if end > len(column):
                column.resize(max(end, len(column) + AT_ONCE), refcheck=False)
            column[self._count : end] = new
        self._count = end

    def whole(self) -> Measures:
        for column in self._columns:
            column.resize(self._count, refcheck=False)
        return Measures(*self._columns)


def _counted(numbers: Iterable[int], count: int) -> np.ndarray:
    return np.fromiter(numbers, dtype=np.uint32, count=count)


def hashes(lines: Sequence[str]) -> np.ndarray:
    """64 bits of BLAKE2b, the first byte the highest: their order is that of the digests."""
    digests = b"".join([blake2b(line.encode(), digest_size=8).digest() for line in lines])
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def _pair_hashes(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """One hash of both. A multiplication by an odd number, so that (a, b) and (b, a) differ."""
    mixed = source * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed += target
    return mixed


# Which pairs are dropped, and why ---------------------------------------------


@dataclass(frozen=True)
class Decision:
    """A code for every pair: 0 if it is kept, else that of its reason."""

    codes: np.ndarray  # uint8
    correlation: float | None = None  # of the two sides' lengths in characters, before the ratio rule
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> np.ndarray:
        return np.flatnonzero(self.codes == 0)

    def rows(self, reason: str) -> np.ndarray:
        return np.flatnonzero(self.codes == CODES[reason])


def decide(measures: Measures, limits: Limits) -> Decision:
    """Drops the training pairs that would teach nonsense."""
    codes, notes = _empty(measures), []
    too_long = np.maximum(measures.source_characters, measures.target_characters) > limits.max_characters
    too_long |= np.maximum(measures.source_words, measures.target_words) > limits.max_words
    _mark(codes, "too_long", np.flatnonzero(too_long & (codes == 0)))
    # Measured before the ratio rule: that rule takes the worst of a misaligned corpus and would flatter it.
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
                "copying seems to be the task, so they are kept"
            )
        else:
            _mark(codes, "identical", left[same])
    return Decision(codes, correlation, tuple(notes))


def decide_held_out(measures: Measures) -> Decision:
    """Text to judge by is left alone, save pairs with an empty side, which no score is defined on."""
    codes = _empty(measures)
    return Decision(codes, _length_correlation(measures, np.flatnonzero(codes == 0)))


def _mark(codes: np.ndarray, reason: str, rows: np.ndarray) -> None:
    codes[rows] = CODES[reason]


def _empty(measures: Measures) -> np.ndarray:
    empty = (measures.source_words == 0) | (measures.target_words == 0)
    return empty.astype(np.uint8) * np.uint8(CODES["empty"])


def _far_from_median(measures: Measures, rows: np.ndarray, max_ratio: float) -> np.ndarray:
    """Against the median, for Korean is always shorter than English, and a summary than its article."""
    if not len(rows):
        return np.zeros(0, dtype=bool)
    # + 10: "Go." may become "Allez-vous-en !"
    away = (measures.source_characters[rows] + 10.0) / (measures.target_characters[rows] + 10.0)
    away /= np.median(away)
    return (away > max_ratio) | (away < 1 / max_ratio)


def _seen_before(measures: Measures, rows: np.ndarray) -> np.ndarray:
    pairs = _pair_hashes(measures.source_hash[rows], measures.target_hash[rows])
    order = np.argsort(pairs, kind="stable")  # equal ones side by side, the first first
    pairs = pairs[order]
    again = np.zeros(len(rows), dtype=bool)
    again[order[1:]] = pairs[1:] == pairs[:-1]
    return again


def _length_correlation(measures: Measures, rows: np.ndarray) -> float | None:
    if len(rows) < 2:
        return None
    source, target = (side[rows].astype(np.float64) for side in measures[:2])
    if np.ptp(source) == 0 or np.ptp(target) == 0:
        return None
    source -= source.mean()
    target -= target.mean()
    return float(source @ target / np.sqrt((source @ source) * (target @ target)))


# What is held out, and what of it leaks ---------------------------------------


def held_out_size(count: int) -> int:
    """How many pairs to hold out: 2 %, between 50 and 1500, but never over a tenth (and at least one)."""
    return min(max(50, min(1500, count // 50)), max(1, count // 10))


def hold_out(source_hash: np.ndarray, count: int) -> np.ndarray:
    """For each pair, whether it is held out; at most `count` are.

    The choice hangs on the text alone, not on its order, so it is the same when the corpus is shuffled.
    All pairs of one source go to the same side. Where every source has more than `count` pairs, those of one
    source are held out all the same; where there is but one source, nothing is.
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
    return _place_among(sources[chosen], source_hash) >= 0


def first_in_train(train: Measures, rows: np.ndarray, held_out: Measures) -> dict[str, np.ndarray]:
    """For each held-out pair, the first of these rows of train with the same pair, source or target; −1 if none."""
    found = {}
    for what in ("pair", "source", "target"):
        wanted, place = np.unique(_hashes_of(what, held_out), return_inverse=True)
        first = np.full(len(wanted), len(train), dtype=np.int64)
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            here = _hashes_of(what, train.of(some))
            at = _place_among(wanted, here)
            hits = np.flatnonzero(at >= 0)
            np.minimum.at(first, at[hits], some[hits])
        found[what] = np.where(first < len(train), first, -1)[place]
    return found


def _place_among(few: np.ndarray, many: np.ndarray) -> np.ndarray:
    """Where each of many stands among few ascending ones; −1 if nowhere. np.isin would sort the many."""
    at = np.searchsorted(few, many)
    at[at == len(few)] = 0
    return np.where(few[at] == many, at, -1) if len(few) else np.full(len(many), -1)


def _hashes_of(what: str, measures: Measures) -> np.ndarray:
    if what == "pair":
        return _pair_hashes(measures.source_hash, measures.target_hash)
    return measures.source_hash if what == "source" else measures.target_hash
