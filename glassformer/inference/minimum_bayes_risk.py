"""Minimum-Bayes-risk decoding (Kumar and Byrne, 2004) over the n-best list of a beam search.

The most probable translation may be an outlier: too short, or with a rare word. This module chooses the candidate that
is most similar to all candidates, weighted by their probability. Similarity is the F1 of character n-grams, as in chrF,
against the expected counts of n-grams (DeNero et al., 2009), so the time is linear in the number of candidates.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from glassformer.inference.translator import Translation

BEAM = 12  # default beam size: a larger list has more candidates to agree with
ORDERS = range(1, 7)  # lengths of n-grams, as in chrF
POWER = 0.4  # of the probabilities; they are overconfident. On Multi30k, 1.0 was worse than beam search

NGrams = list[Counter[str]]  # by order


def choose_by_risk(translation: Translation) -> Translation:
    """Return the translation with its candidates in order of their similarity to all candidates."""
    candidates = translation.candidates
    if len(candidates) < 2:
        return translation
    values = similarities([c.text for c in candidates], [c.log_probability for c in candidates])
    order = sorted(range(len(candidates)), key=lambda i: -values[i])
    best = candidates[order[0]]
    return replace(translation, text=best.text, score=best.score, candidates=[candidates[i] for i in order])


def similarities(texts: Sequence[str], log_probabilities: Sequence[float]) -> list[float]:
    """Return the similarity of each text to all texts, weighted by probability^POWER."""
    highest = max(log_probabilities)
    weights = [math.exp(POWER * (value - highest)) for value in log_probabilities]
    counted = [_count(text) for text in texts]
    expected: NGrams = [Counter() for _ in ORDERS]
    for ngrams, weight in zip(counted, weights, strict=True):
        for total, counts in zip(expected, ngrams, strict=True):
            for ngram, count in counts.items():
                total[ngram] += weight / sum(weights) * count  # type: ignore[assignment]  # a Counter of fractions
    return [_f1(ngrams, expected) for ngrams in counted]


def _count(text: str) -> NGrams:
    return [Counter(text[i : i + n] for i in range(len(text) - n + 1)) for n in ORDERS]


def _f1(ngrams: NGrams, expected: NGrams) -> float:
    """Return the mean over the orders of 2·matches / (counts + expected counts)."""
    values = [
        2 * sum(min(count, right[ngram]) for ngram, count in counts.items()) / total
        for counts, right in zip(ngrams, expected, strict=True)
        if (total := counts.total() + right.total())
    ]
    return sum(values) / max(1, len(values))
