"""Every lesson in both languages: its live frames show the model that it names, and its exercises can be solved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_lessons_view import show, solve

from glassformer.lessons import LANGUAGES, View, lessons


@pytest.fixture(scope="module")
def address(serve: Any, lesson_runs: list[Path]) -> Iterator[str]:
    with serve(lesson_runs) as where:
        yield where


def check_frame(frame: Any, view: View, lesson: str) -> None:
    """The frame shows the view of this run, without an error and without a message in place of the view."""
    frame.scroll_into_view_if_needed()
    inside = frame.content_frame
    inside.locator("main > .view .panel").first.wait_for()
    assert inside.locator(".problem, main .empty").count() == 0, (lesson, view)
    for field in ("run", "text"):  # a view without a model has neither
        if field in view.address:
            assert inside.locator(f"#{field}").input_value() == view.address[field]
    if tensor := view.address.get("tensor"):
        inside.locator(".exact-name", has_text=str(tensor)).first.wait_for(state="attached")


@pytest.mark.parametrize("language", LANGUAGES)
def test_frames_and_exercises(open_page: Any, language: str) -> None:
    page = open_page("#/lessons", locale=language)
    for lesson in lessons(language):
        show(page, lesson)
        views = lesson.of_kind("view")
        assert page.locator("iframe").count() == len(views), lesson.name
        for frame, view in zip(page.locator("iframe").all(), views, strict=True):
            check_frame(frame, view, lesson.name)
        for exercise, form in zip(lesson.of_kind("exercise"), page.locator(".exercise").all(), strict=True):
            solve(page, form, exercise)
