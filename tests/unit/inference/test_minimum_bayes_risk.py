"""Minimum-Bayes-risk decoding: the candidate on which the others agree."""

from __future__ import annotations

import pytest

from glassformer.inference.minimum_bayes_risk import choose_by_risk, similarities
from glassformer.inference.translator import Candidate, Translation


def translated(*candidates: tuple[str, float]) -> Translation:
    listed = [Candidate(text, value / 7, value, 7) for text, value in candidates]
    return Translation(listed[0].text, listed[0].score, listed, ["a warning"])


def test_an_outlier_loses_against_candidates_that_agree() -> None:
    before = translated(
        ("Hallo", -1.0), ("Ein Hund rennt im Park.", -1.3), ("Der Hund rennt im Park.", -2.9), ("Zwei Katzen", -1.5)
    )
    after = choose_by_risk(before)
    assert after.text == after.candidates[0].text == "Ein Hund rennt im Park."
    assert after.score == after.candidates[0].score
    assert sorted(after.candidates, key=lambda c: c.text) == sorted(before.candidates, key=lambda c: c.text)
    assert after.warnings == before.warnings


def test_a_probable_candidate_counts_more() -> None:
    pair = ["Ein Hund rennt.", "Zwei Katzen"]
    assert similarities(pair, [-1.0, -9.0])[0] > similarities(pair, [-1.0, -9.0])[1]
    assert similarities(pair, [-9.0, -1.0])[0] < similarities(pair, [-9.0, -1.0])[1]


def test_equal_texts_are_as_similar_as_possible() -> None:
    assert similarities(["한국어", "한국어"], [-1.0, -2.0]) == pytest.approx([1.0, 1.0])
    assert similarities(["", "a"], [-1.0, -1.0])[0] == 0


@pytest.mark.parametrize("translation", [Translation(""), translated(("Hallo", -1.0))])
def test_fewer_than_two_candidates_stay(translation: Translation) -> None:
    assert choose_by_risk(translation) is translation
