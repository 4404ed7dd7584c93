"""Scores of translations, by sacreBLEU, with the signature that makes them comparable; and of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LENGTHS = ((1, 9), (10, 19), (20, 29), (30, 49), (50, None))  # words of the source, for BLEU by length


@dataclass(frozen=True)
class Score:
    value: float
    signature: str


@dataclass(frozen=True)
class Scores:
    """Everything that is said of a set of translations."""

    bleu: Score
    chrf: Score
    exact_match: float
    sentences: int


def score(
    outputs: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str | None = None
) -> Scores:
    return Scores(
        bleu=bleu(outputs, references, lowercase=lowercase, tokenize=tokenize),
        chrf=chrf(outputs, references, lowercase=lowercase),
        exact_match=exact_match(outputs, references, lowercase=lowercase),
        sentences=len(outputs),
    )


def bleu(
    outputs: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str | None = None
) -> Score:
    from sacrebleu.metrics import BLEU

    return _corpus_score(BLEU(lowercase=lowercase, tokenize=tokenize), outputs, references)


def chrf(outputs: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    from sacrebleu.metrics import CHRF

    return _corpus_score(CHRF(lowercase=lowercase), outputs, references)


def exact_match(outputs: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> float:
    """The share of lines that are right to the letter, in percent."""
    if lowercase:
        outputs, references = ([line.lower() for line in lines] for lines in (outputs, references))
    same = sum(output == reference for output, reference in zip(outputs, references, strict=True))
    return 100 * same / max(1, len(outputs))


def accuracy(predicted: Sequence[int], right: Sequence[int]) -> float:
    """The share that is right, in percent."""
    same = sum(one == other for one, other in zip(predicted, right, strict=True))
    return 100 * same / max(1, len(right))


def macro_f1(predicted: Sequence[int], right: Sequence[int]) -> float:
    """F1 of every label that occurs, in percent; their mean, so that a rare label counts as much as a frequent one."""
    pairs = Counter(zip(predicted, right, strict=True))
    said, true = Counter(predicted), Counter(right)
    labels = sorted(said.keys() | true.keys())
    return sum(200 * pairs[label, label] / (said[label] + true[label]) for label in labels) / max(1, len(labels))


def bleu_by_length(
    sources: Sequence[str],
    outputs: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    tokenize: str | None = None,
    lengths: Sequence[tuple[int, int | None]] = LENGTHS,
) -> dict[str, tuple[float, int]]:
    """BLEU and number of sentences for each range of source words that occurs."""
    result = {}
    for low, high in lengths:
        rows = [i for i, line in enumerate(sources) if low <= len(line.split()) <= (high or 10**9)]
        if rows:
            score = bleu(
                [outputs[i] for i in rows],
                [references[i] for i in rows],
                lowercase=lowercase,
                tokenize=tokenize,
            )
            name = f"{low}+" if high is None else f"{low}–{high}" if low < high else f"{low}"
            result[name] = (score.value, len(rows))
    return result


def _corpus_score(metric: Any, outputs: Sequence[str], references: Sequence[str]) -> Score:
    score = metric.corpus_score(list(outputs), [list(references)])
    return Score(float(score.score), str(metric.get_signature()))
