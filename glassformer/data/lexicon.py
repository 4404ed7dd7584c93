"""Which target tokens translate a source token, learned from parallel text by IBM Model 1 (Brown et al., 1993)."""

from __future__ import annotations

import numpy as np

from glassformer.data.store import EncodedPairs

MAX_PAIRS = 40_000  # sentence pairs that the model is learned from
MAX_COMBINATIONS = 20_000_000  # of a source word with a target word of its pair; each takes 69 bytes
ITERATIONS = 4


def learn_lexicon(pairs: EncodedPairs, *, candidates: int) -> dict[int, list[int]]:
    """Return up to `candidates` target tokens for every source token, most probable first.

    The model is learned from at most `MAX_PAIRS` pairs with at most `MAX_COMBINATIONS` combinations.
    """
    rows = _rows(pairs)
    if not len(rows):
        return {}
    source_N, target_N, words = _cartesian(pairs, rows)
    vocab = int(max(source_N.max(), target_N.max())) + 1
    codes, entry_N = np.unique(source_N * vocab + target_N, return_inverse=True)
    source, target = codes // vocab, codes % vocab
    probability = np.ones(len(codes))  # of the target token, given the source token; not normalized at first
    for _ in range(ITERATIONS):
        # Expectation: each target word is explained by the words of its source, in proportion to their probabilities.
        share_N = probability[entry_N]
        share_N /= np.repeat(np.add.reduceat(share_N, words[:-1]), np.diff(words))
        # Maximization: normalize the expected counts of each source token.
        count = np.bincount(entry_N, weights=share_N, minlength=len(codes))
        probability = count / np.bincount(source, weights=count, minlength=vocab)[source]
    order = np.lexsort([-probability, source])
    source, target = source[order], target[order]
    tokens, starts = np.unique(source, return_index=True)
    ends = np.append(starts[1:], len(source))
    return {
        int(token): target[start : min(end, start + candidates)].tolist()
        for token, start, end in zip(tokens, starts, ends, strict=True)
    }


def frequent_targets(pairs: EncodedPairs, *, most: int) -> list[int]:
    """Return the most frequent target tokens of the pairs that the lexicon is learned from."""
    _, targets = pairs.sides(_rows(pairs))
    counts = np.bincount(targets.flat.astype(np.int64))
    order = np.argsort(-counts, kind="stable")[:most]
    return [int(token) for token in order if counts[token]]


def _rows(pairs: EncodedPairs) -> np.ndarray:
    """Return the rows that the lexicon is learned from: pairs from the whole corpus, with words on both sides."""
    rows = np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), MAX_PAIRS)).round().astype(np.int64))
    combinations = pairs.source_lengths[rows].astype(np.int64) * pairs.target_lengths[rows].astype(np.int64)
    rows, combinations = rows[combinations > 0], combinations[combinations > 0]
    if combinations.sum() <= MAX_COMBINATIONS:
        return rows
    kept, room = [], MAX_COMBINATIONS
    for i in np.random.default_rng(0).permutation(len(rows)):
        if combinations[i] <= room:
            kept.append(i)
            room -= int(combinations[i])
    return rows[np.sort(np.array(kept, dtype=np.int64))]


def _cartesian(pairs: EncodedPairs, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return every combination of a target word with the words of its source.

    Returns:
        Source and target token of each combination, and where the combinations of each target word begin, with the
        total at the end.
    """
    sources, targets = pairs.sides(rows)
    source_lengths, target_lengths = sources.lengths, targets.lengths
    per_word = np.repeat(source_lengths, target_lengths)  # combinations of each target word
    words = np.concatenate([[0], np.cumsum(per_word)])
    first_of_row = np.cumsum(source_lengths) - source_lengths
    first = np.repeat(first_of_row, target_lengths)  # first source word of each target word
    within = np.arange(words[-1]) - np.repeat(words[:-1], per_word)
    source_N = sources.flat.astype(np.int64)[np.repeat(first, per_word) + within]
    target_N = np.repeat(targets.flat.astype(np.int64), per_word)
    return source_N, target_N, words
