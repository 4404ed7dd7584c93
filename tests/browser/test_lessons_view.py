"""The lessons in a real browser: every lesson in both languages, exercises, live views, links to a part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.lessons import LANGUAGES, Exercise, Lesson, lessons

FROZEN = Path(__file__).parents[1] / "compat" / "runs" / "format-1"
NAME = "09-self-attention-by-hand"
LESSON = f"#/lessons?lesson={NAME}"
PHONE = {"width": 360, "height": 740}
TITLE = "title => document.querySelector('.lesson h2')?.textContent === title"

# Everything that ends beyond the right edge of the screen, unless it can be scrolled into view.
BEYOND = """() => [...document.querySelectorAll('body *')]
  .filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth)
  .filter(e => !e.closest('pre, .scroll, .tabs, .skip'))
  .map(e => e.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def address(serve: Any) -> Iterator[str]:
    """A studio of one Transformer, which takes the place of the demo."""
    with serve([FROZEN]) as where:
        yield where


def show(page: Any, lesson: Lesson) -> None:
    page.evaluate("name => { location.hash = `#/lessons?lesson=${name}` }", lesson.name)
    page.wait_for_function(TITLE, arg=lesson.title)


def solve(page: Any, form: Any, exercise: Exercise) -> None:
    if exercise.options:
        form.locator("[type=radio]").nth(exercise.options.index(str(exercise.answer))).check()
    else:
        form.locator("[name=answer]").fill(str(exercise.answer))
    form.locator("[type=submit]").click()
    form.locator(".feedback.right").wait_for()


def choose_runs(page: Any, runs: list[dict[str, Any]]) -> None:
    """Make the page believe that the studio was started with other runs."""
    page.route("**/api/runs", lambda route: route.fulfill(json=runs))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_lesson_fits_a_phone_and_its_exercises_can_be_solved(open_page: Any, language: str) -> None:
    page = open_page("#/lessons", locale=language, viewport=PHONE)
    choose_runs(page, [])  # so that no frame computes: another test opens one
    page.reload()
    for lesson in lessons(language):
        show(page, lesson)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], lesson.name
        assert page.evaluate(BEYOND) == [], lesson.name
        for exercise, form in zip(lesson.of_kind("exercise"), page.locator(".exercise").all(), strict=True):
            assert not form.locator(".solved").is_visible()
            solve(page, form, exercise)
    page.reload()
    page.wait_for_function(TITLE, arg=lesson.title)
    assert all(form.locator(".solved").is_visible() for form in page.locator(".exercise").all())
    page.locator(".tabs a").first.click()
    page.locator(".lesson-list").wait_for()
    assert page.locator(".lesson-list .title").all_inner_texts() == [lesson.title for lesson in lessons(language)]
    assert page.locator(".lesson-list .mark").count() == len(lessons(language))
    assert page.evaluate(BEYOND) == []


def test_every_lesson_is_two_clicks_from_the_first_page(open_page: Any) -> None:
    page = open_page()
    for lesson in lessons("en"):
        page.evaluate("location.hash = '#/'")
        page.locator(".worksheet .figure svg").wait_for()
        page.get_by_role("link", name="Lessons", exact=True).click()
        page.locator(".lesson-list a", has=page.get_by_text(lesson.title, exact=True)).click()
        page.wait_for_function(TITLE, arg=lesson.title)


def test_a_wrong_answer_the_hint_and_the_solution(open_page: Any) -> None:
    page = open_page(LESSON)
    for given, kind, said in (
        ("", "invalid", "Enter a number."),
        ("many", "invalid", "“many” is not a number."),
        ("13", "wrong", "Not correct."),
        ("12,005", "right", "Correct."),  # a decimal comma, within the tolerance
    ):
        page.fill("[name=answer]", given)
        page.keyboard.press("Enter")
        page.locator(f".feedback.{kind}", has_text=said).wait_for()
        assert page.locator(".solved").is_visible() == (kind == "right")
    assert page.locator(".feedback").get_attribute("aria-live") == "polite"
    for title, text in (("Hint", "Query 2 is [2, 2, 2]."), ("Solution", "Key 3 is [2, 3, 1].")):
        assert not page.get_by_text(text).is_visible()
        page.get_by_text(title, exact=True).click()
        assert page.get_by_text(text).is_visible()


def test_a_choice(open_page: Any) -> None:
    page = open_page("#/lessons")
    exercise = {
        "kind": "exercise", "question": "<p>Which?</p>", "options": ["`a`", "b"], "answer": "b", "tolerance": 0,
        "hint": "<p>h</p>", "solution": "<p>s</p>",
    }  # fmt: skip
    lesson = {"name": NAME, "title": "Choice", "parts": [exercise]}
    page.route(f"**/api/lessons/{NAME}*", lambda route: route.fulfill(json=lesson))
    page.locator(".lesson-list a", has_text="Self-attention by hand").click()
    page.get_by_role("button", name="Check").click()
    page.get_by_text("Choose an answer.").wait_for()
    for option, kind in (("a", "wrong"), ("b", "right")):
        page.get_by_role("radio", name=option).check()
        page.get_by_role("button", name="Check").click()
        page.locator(f".feedback.{kind}").wait_for()


@pytest.mark.parametrize("size", [{"width": 1280, "height": 800}, PHONE], ids=["desktop", "phone"])
def test_the_frame_shows_the_view(open_page: Any, size: dict[str, int]) -> None:
    page = open_page(LESSON, viewport=size)
    page.locator("iframe").last.scroll_into_view_if_needed()
    inside = page.frame_locator("iframe >> nth=1")
    inside.locator(".worksheet").wait_for()
    assert inside.locator("#text").input_value() == "I am a student"
    assert inside.locator(":is(header, nav):visible").count() == 0
    frame = page.locator("iframe").last.element_handle().content_frame()
    assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert frame.evaluate("document.activeElement === document.body")  # the lesson keeps the focus
    inside.locator("#text").fill("The cat is small.")
    inside.locator("#text").press("Enter")
    inside.locator(".worksheet").wait_for()
    frame.wait_for_function("location.hash.includes('cat') && document.body.classList.contains('embedded')")
    assert page.evaluate("location.hash") == LESSON
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Open in full page").last.click()
    opened.value.locator(".worksheet").wait_for()
    assert opened.value.locator("header").is_visible()
    assert opened.value.url.endswith("/#/worksheet?run=format-1&text=I+am+a+student")


def test_a_missing_run_is_replaced_by_the_command_that_makes_it(open_page: Any) -> None:
    page = open_page("#/lessons")
    family = {"task": "translation", "traits": {"sequence_to_sequence": True}, "family": "recurrent", "described": ""}
    choose_runs(page, [{"name": "gru"} | family])
    page.goto(f"{page.url.partition('#')[0]}{LESSON}")
    page.reload()
    notice = page.locator(".live .notice")
    notice.wait_for()
    assert "not started with: demo" in notice.inner_text() and "glassformer lessons" in notice.inner_text()
    assert page.locator("iframe").count() == 1  # the worked example needs no model


def test_a_link_to_a_part(open_page: Any) -> None:
    page = open_page(LESSON)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("main").get_by_role("button", name="Copy link").nth(2).click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.endswith(f"/{LESSON}&part=3")
    page.goto(copied)
    page.wait_for_function(
        "() => Math.abs(document.querySelector('.part[aria-current]')?.getBoundingClientRect().top) < 40"
    )
    assert page.locator(".part[aria-current] h3").inner_text() == "A common misreading"
    page.get_by_role("button", name="Copy", exact=True).click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("import numpy as np\n")


def test_lessons_need_no_run_and_are_not_the_first_page(open_page: Any) -> None:
    page = open_page()
    assert page.locator(".tabs a[aria-current]").inner_text() == "Worksheet"
    assert page.locator(".tabs a").first.inner_text() == "Lessons"
    choose_runs(page, [])
    page.goto(f"{page.url.partition('#')[0]}#/lessons?run=deleted")
    page.reload()
    page.locator(".lesson-list").wait_for()
    assert not page.locator("#text").is_visible() and not page.locator("#run").is_visible()


def test_an_unknown_lesson_is_explained(open_page: Any) -> None:
    page = open_page("#/lessons?lesson=nothing", refusals=True)
    assert "There is no lesson with this name." in page.locator(".problem").inner_text()


def test_a_narrow_frame_starts_at_the_numbers(open_page: Any) -> None:
    page = open_page("?embedded=1#/worksheet?block=encoder.0.self", viewport={"width": 300, "height": 600})
    page.wait_for_function("() => Math.abs(document.querySelector('.detail')?.getBoundingClientRect().top) < 40")
