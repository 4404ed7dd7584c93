"""Plain reference implementation of filtering and batching: the same rules on lists of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from glassformer.data.filtering import DROP_REASONS
from glassformer.data.parallel_text import SentencePair
from glassformer.settings import Limits

Batches = list[list[int]]


class Sieved(NamedTuple):
    kept: list[SentencePair]
    dropped: dict[str, list[SentencePair]]
    correlation: float | None
    copying: bool


def check(pairs: Sequence[SentencePair], limits: Limits) -> Sieved:
    left = list(pairs)
    dropped: dict[str, list[SentencePair]] = {reason: [] for reason in DROP_REASONS}

    def drop(reason: str, flags: Sequence[bool]) -> None:
        nonlocal left
        dropped[reason] = [pair for pair, bad in zip(left, flags, strict=True) if bad]
        left = [pair for pair, bad in zip(left, flags, strict=True) if not bad]

    drop("empty", [not pair.source.strip() or not pair.target.strip() for pair in left])
    drop("too_long", [too_long(pair, limits) for pair in left])
    correlation = length_correlation(left)
    drop("length_ratio", far_from_median(left, limits.max_ratio))
    if limits.drop_duplicates:
        drop("duplicate", [pair[:2] in {p[:2] for p in left[:i]} for i, pair in enumerate(left)])
    same = [pair.source == pair.target for pair in left]
    copying = limits.drop_identical and 2 * sum(same) > len(same)
    if limits.drop_identical and not copying:
        drop("identical", same)
    return Sieved(left, dropped, correlation, copying)


def too_long(pair: SentencePair, limits: Limits) -> bool:
    return any(len(text) > limits.max_characters or len(text.split()) > limits.max_words for text in pair[:2])


def far_from_median(pairs: Sequence[SentencePair], max_ratio: float) -> list[bool]:
    ratios = [(len(pair.source) + 10) / (len(pair.target) + 10) for pair in pairs]
    median = float(np.median(ratios)) if ratios else 1.0
    return [ratio / median > max_ratio or ratio / median < 1 / max_ratio for ratio in ratios]


def length_correlation(pairs: Sequence[SentencePair]) -> float | None:
    lengths = [[len(pair.source) for pair in pairs], [len(pair.target) for pair in pairs]]
    if len(pairs) < 2 or any(len(set(side)) == 1 for side in lengths):
        return None
    return float(np.corrcoef(*lengths)[0, 1])


def hold_out(pairs: Sequence[SentencePair], count: int) -> tuple[list[SentencePair], list[SentencePair]]:
    sizes: dict[str, int] = {}
    for pair in pairs:
        sizes[pair.source] = sizes.get(pair.source, 0) + 1
    order = sorted(sizes, key=lambda source: blake2b(source.encode(), digest_size=8).digest())
    chosen: set[str] = set()
    room = count
    for source in order:
        if sizes[source] <= room:
            chosen.add(source)
            room -= sizes[source]
    if not chosen and count > 0 and len(order) > 1:
        chosen.add(min(order, key=sizes.__getitem__))
    return [p for p in pairs if p.source not in chosen], [p for p in pairs if p.source in chosen]


def fingerprint(*splits: Sequence[SentencePair]) -> str:
    digest = blake2b(digest_size=16)
    for split in splits:
        for pair in split:
            digest.update(f"{pair.source}\t{pair.target}\n".encode())
    return digest.hexdigest()


def epoch(sizes: Sequence[tuple[int, int]], batch_tokens: int, seed: int, number: int) -> Batches:
    """The batches of an epoch, for pairs of so many source and target tokens, `<eos>` not included."""
    source, target = (np.array(side) + 1 for side in zip(*sizes, strict=True))
    random = np.random.default_rng([seed, number])
    order = np.lexsort([random.random(len(sizes)), np.where(source % 2, -target, target), source])
    batches = cut(order.tolist(), source.tolist(), target.tolist(), batch_tokens)
    return [batches[i] for i in random.permutation(len(batches))]


def cut(order: list[int], source: list[int], target: list[int], batch_tokens: int) -> Batches:
    batches: Batches = []
    rows: list[int] = []
    widest = length = 0
    for row in order:
        wider = max(widest, source[row], target[row])
        full = wider * (len(rows) + 1) > batch_tokens
        new_length = source[row] != length and widest * len(rows) >= batch_tokens / 2
        if rows and (full or new_length):
            batches.append(rows)
            rows, wider = [], max(source[row], target[row])
        rows.append(row)
        widest, length = wider, source[row]
    return [*batches, rows]
