"""ROUGE-L and answer scores, compared with numbers computed by hand."""

from __future__ import annotations

import sys

import pytest

from glassformer.errors import UserError
from glassformer.tasks import metrics


def test_the_longest_common_subsequence_of_words() -> None:
    # "the cat … mat" is common: 3 of 4 words said, 3 of 6 of the reference; F1 = 2·(3/4)·(1/2) / (5/4)
    score = metrics.rouge_l(["The cat, a mat"], ["the cat sat on the mat"])
    assert score.value == pytest.approx(60)
    assert "rouge-score:" in score.signature
    assert metrics.rouge_l(["a b", "c"], ["a b", "d"]).value == pytest.approx(50)


def test_the_nearest_of_several_references_counts() -> None:
    score = metrics.rouge_l(["a b", "c"], ["a b", "d"], ["x y", "c"])
    assert score.value == pytest.approx(100)
    assert "nrefs:2" in score.signature


def test_korean_has_words_too() -> None:
    assert metrics.rouge_l(["학교에 가는 이유"], ["학교에 가는 이유"]).value == pytest.approx(100)
    assert metrics.rouge_l(["학교에 안 가는 날"], ["학교에 가는 이유"]).value == pytest.approx(100 * 4 / 7)


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(UserError, match=r"glassformer\[rouge\]"):
        metrics.rouge_l(["a"], ["a"])


@pytest.mark.parametrize(
    ("given", "right", "exact", "f1"),
    [
        ("The 1920s.", ["1920s"], 1, 1),
        ("in the 1920s", ["the 1930s", "1920s"], 0, 2 / 3),
        ("서울", ["서울."], 1, 1),
        ("", [], 1, 1),
        ("something", [], 0, 0),
        ("", ["1920s"], 0, 0),
        ("a b b", ["b b c c"], 0, 2 * 2 / 6),
    ],
)
def test_answers_as_squad_counts_them(given: str, right: list[str], exact: float, f1: float) -> None:
    assert metrics.answer_match(given, right) == (exact, pytest.approx(f1))
