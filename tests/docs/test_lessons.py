"""Every lesson runs, its exercises have the stated answers, and both languages have the same content."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from glassformer.lessons import LANGUAGES, SECTIONS, Exercise, Lesson, lessons

BOTH = list(zip(*(lessons(language) for language in LANGUAGES), strict=True))


def headings(lesson: Lesson) -> int:
    return sum(len(re.findall(r"^## ", text, re.MULTILINE)) for text in lesson.of_kind("markdown"))


def same_in_all_languages(exercise: Exercise) -> Exercise:
    answer = exercise.options.index(str(exercise.answer)) if exercise.options else exercise.answer
    return replace(exercise, question="", hint="", solution="", answer=answer, options=("",) * len(exercise.options))


@pytest.mark.parametrize(("english", "korean"), BOTH, ids=lambda lesson: lesson.name)
def test_both_languages_have_the_same_content(english: Lesson, korean: Lesson) -> None:
    assert english.name == korean.name
    assert headings(english) == headings(korean) == SECTIONS
    assert english.of_kind("python") == korean.of_kind("python")
    addresses = [[view.address for view in lesson.of_kind("view")] for lesson in (english, korean)]
    assert addresses[0] == addresses[1] and addresses[0]
    exercises = [[same_in_all_languages(e) for e in lesson.of_kind("exercise")] for lesson in (english, korean)]
    assert exercises[0] == exercises[1] and exercises[0]
    assert re.search("[가-힣]", korean.title)


@pytest.mark.parametrize("lesson", lessons("en"), ids=lambda lesson: lesson.name)
def test_the_code_runs_and_gives_the_answers(lesson: Lesson) -> None:
    names: dict[str, Any] = {}
    for code in lesson.of_kind("python"):
        exec(compile(code, lesson.name, "exec"), names)
    for exercise in lesson.of_kind("exercise"):
        found = eval(exercise.check, names)
        if exercise.options:
            assert exercise.answer in exercise.options
            assert str(found) == str(exercise.options.index(str(exercise.answer)))
        else:
            assert float(found) == pytest.approx(float(exercise.answer), abs=max(exercise.tolerance, 1e-9))
