"""Metrics: BLEU and chrF (sacreBLEU, with signatures), ROUGE-L, accuracy, F1, exact match."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from glassformer.errors import UserError

LENGTHS = ((1, 9), (10, 19), (20, 29), (30, 49), (50, None))  # ranges of source words, for BLEU by length


def metric_name(score: str) -> str:
    """Return the usual spelling of a metric: BLEU for `bleu`."""
    return {"bleu": "BLEU", "chrf": "chrF", "rouge_l": "ROUGE-L", "f1": "F1"}.get(score, score.replace("_", " "))


@dataclass(frozen=True)
class Score:
    value: float
    signature: str


@dataclass(frozen=True)
class Scores:
    """The scores of a set of translations."""

    bleu: Score
    chrf: Score
    exact_match: float
    sentences: int


def score(
    outputs: Sequence[str], *references: Sequence[str], lowercase: bool = False, tokenize: str | None = None
) -> Scores:
    """Score outputs against one or several references per line."""
    return Scores(
        bleu=bleu(outputs, *references, lowercase=lowercase, tokenize=tokenize),
        chrf=chrf(outputs, *references, lowercase=lowercase),
        exact_match=exact_match(outputs, *references, lowercase=lowercase),
        sentences=len(outputs),
    )


def bleu(
    outputs: Sequence[str],
    *references: Sequence[str],
    lowercase: bool = False,
    tokenize: str | None = None,
    reference_scale: float = 1.0,
) -> Score:
    """Return BLEU. The brevity penalty uses `reference_scale` times the length of the references."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase=lowercase, tokenize=tokenize)
    result = metric.corpus_score(list(outputs), [list(right) for right in references])
    value = float(result.score)
    if reference_scale != 1 and value > 0:
        value *= min(1.0, math.exp(1 - reference_scale * result.ref_len / result.sys_len)) / result.bp
    return Score(value, str(metric.get_signature()))


def chrf(outputs: Sequence[str], *references: Sequence[str], lowercase: bool = False) -> Score:
    from sacrebleu.metrics import CHRF

    metric = CHRF(lowercase=lowercase)
    result = metric.corpus_score(list(outputs), [list(right) for right in references])
    return Score(float(result.score), str(metric.get_signature()))


def rouge_l(outputs: Sequence[str], *references: Sequence[str]) -> Score:
    """Return the mean F1 of the longest common subsequence of words (Lin, 2004), in percent.

    The best of several references counts. Words are lowercased and not stemmed. They may have letters of any script:
    the tokenizer of rouge-score keeps only ASCII letters, so Korean text would have no words.
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise UserError("rouge-score is not installed.", hint="pip install 'glassformer[rouge]'") from None
    scorer = RougeScorer(["rougeL"], tokenizer=_UnicodeWords())
    lines = zip(outputs, *references, strict=True)
    values = [float(scorer.score_multi(right, output)["rougeL"].fmeasure) for output, *right in lines]
    signature = f"ROUGE-L|nrefs:{len(references)}|words:unicode|case:lc|stem:no|rouge-score:{version('rouge-score')}"
    return Score(100 * sum(values) / max(1, len(values)), signature)


class _UnicodeWords:
    def tokenize(self, text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())


def exact_match(outputs: Sequence[str], *references: Sequence[str], lowercase: bool = False) -> float:
    """Return the share of lines that equal a reference, in percent."""
    if lowercase:
        return exact_match(*([line.lower() for line in lines] for lines in (outputs, *references)))
    same = sum(output in right for output, *right in zip(outputs, *references, strict=True))
    return 100 * same / max(1, len(outputs))


def accuracy(predicted: Sequence[int], right: Sequence[int]) -> float:
    """Return the share of correct predictions, in percent."""
    same = sum(one == other for one, other in zip(predicted, right, strict=True))
    return 100 * same / max(1, len(right))


def macro_f1(predicted: Sequence[int], right: Sequence[int]) -> float:
    """Return the mean F1 over all labels that occur, in percent."""
    pairs = Counter(zip(predicted, right, strict=True))
    given, true = Counter(predicted), Counter(right)
    labels = sorted(given.keys() | true.keys())
    return sum(200 * pairs[label, label] / (given[label] + true[label]) for label in labels) / max(1, len(labels))


def answer_match(given: str, right: Sequence[str]) -> tuple[float, float]:
    """Return the best exact match (0 or 1) and F1 over words of an answer and the correct answers, as for SQuAD.

    Case, punctuation and English articles are ignored. Without correct answers, the empty answer is correct.
    """
    answer = _normalized_words(given)
    scores = [(float(answer == words), _overlap(answer, words)) for words in map(_normalized_words, right or [""])]
    return max(exact for exact, _ in scores), max(f1 for _, f1 in scores)


def _normalized_words(answer: str) -> list[str]:
    letters = "".join(c for c in answer.lower() if not unicodedata.category(c).startswith("P"))
    return [word for word in letters.split() if word not in ("a", "an", "the")]


def _overlap(answer: list[str], right: list[str]) -> float:
    if not answer or not right:
        return float(answer == right)
    shared = sum((Counter(answer) & Counter(right)).values())
    return 2 * shared / (len(answer) + len(right))


def bleu_by_length(
    sources: Sequence[str],
    outputs: Sequence[str],
    *references: Sequence[str],
    lowercase: bool = False,
    tokenize: str | None = None,
    lengths: Sequence[tuple[int, int | None]] = LENGTHS,
) -> dict[str, tuple[float, int]]:
    """Return BLEU and the number of sentences for each range of source words that occurs."""
    result = {}
    for low, high in lengths:
        rows = [i for i, line in enumerate(sources) if low <= len(line.split()) <= (high or 10**9)]
        if rows:
            chosen = [[lines[i] for i in rows] for lines in (outputs, *references)]
            score = bleu(*chosen, lowercase=lowercase, tokenize=tokenize)
            name = f"{low}+" if high is None else f"{low}–{high}" if low < high else f"{low}"
            result[name] = (score.value, len(rows))
    return result
