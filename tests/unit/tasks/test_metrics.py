from __future__ import annotations

import math

import pytest

from glassformer.tasks.metrics import bleu, bleu_by_length, chrf, exact_match


def test_scores_are_sacrebleus_with_its_signature() -> None:
    outputs, references = ["The cat sat on the mat today."], ["the cat sat on the mat."]
    cased, lowered = bleu(outputs, references), bleu(outputs, references, lowercase=True)
    assert lowered.value > cased.value > 0
    assert "case:mixed" in cased.signature and "tok:13a" in cased.signature
    assert "case:lc" in lowered.signature
    assert "tok:char" in bleu(outputs, references, tokenize="char").signature
    assert chrf(references, references).value == pytest.approx(100)
    assert bleu(references, references).value == pytest.approx(100)


def test_the_brevity_penalty_can_expect_longer_or_shorter_references() -> None:
    lines = ["the cat sat on the mat and slept"]
    assert bleu(lines, lines, reference_scale=1.1).value == pytest.approx(100 * math.exp(-0.1))
    short, long = ["the cat sat on the mat"], ["the cat sat on the mat and slept"]
    assert bleu(short, long).value == pytest.approx(100 * math.exp(1 - 8 / 6))
    assert bleu(short, long, reference_scale=0.75).value == pytest.approx(100)
    assert bleu(["dog"], long, reference_scale=0.5).value == 0


def test_exact_match_counts_lines() -> None:
    assert exact_match(["a", "b", "c", "d"], ["a", "x", "c", "d"]) == 75


def test_bleu_by_length_puts_each_sentence_in_one_range() -> None:
    sources = ["w " * n for n in (1, 9, 10, 25, 60, 3)]
    ranges = bleu_by_length(sources, sources, sources)
    assert {name: count for name, (_, count) in ranges.items()} == {"1–9": 3, "10–19": 1, "20–29": 1, "50+": 1}


def test_of_several_references_any_is_right() -> None:
    outputs, first, second = (
        ["a small red house", "the dog"],
        ["a big house", "the dog"],
        ["a small red house", "a dog"],
    )
    assert exact_match(outputs, first, second) == 100 > exact_match(outputs, first)
    assert bleu(outputs, first, second).value == pytest.approx(100)
    assert "nrefs:2" in bleu(outputs, first, second).signature
    ranges = bleu_by_length(outputs, outputs, first, second)
    assert ranges == {"1–9": (pytest.approx(100), 2)}
