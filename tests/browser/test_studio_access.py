"""The studio for everybody: names for all controls, contrast, the keyboard, a language, small screens."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

FROZEN = Path(__file__).parents[1] / "compat" / "runs" / "format-1"
VIEWS = [
    "#/lessons",
    "#/lessons?lesson=09-self-attention-by-hand&part=5",
    "#/worksheet",
    "#/worksheet?block=encoder.0.self&tensor=encoder.0.self.scores&cell=0,1,1",
    "#/attention?kind=encoder&row=1",
    "#/attention?kind=encoder&head=mean",
    "#/attention?kind=cross&as=lines&row=1",
    "#/decode?step=1",
    "#/positions",
    "#/positions?part=together",
    "#/positions?part=masks&masks=padding,cross",
    "#/stream?side=decoder",
    "#/intervene?changes=silence%3Dencoder.1.self.0",
    "#/compare?other=gru",
    "#/compare?other=plain",  # which does not look at the source
    "#/training?run=transformer&text=The+cat+is+small.",
    "#/training?run=format-1",  # which has no log
]
LEAST = 4.5  # contrast of text (WCAG AA)

UNNAMED = """() => {
  const name = e => e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent || e.title || '';
  const controls = 'a[href], button, input, select, textarea, summary, [role=button], [tabindex]';
  return [...document.querySelectorAll(controls)]
    .filter(e => e.checkVisibility() && e.id !== 'view' && e.tagName !== 'PRE' && !name(e).trim())
    .map(e => e.outerHTML.slice(0, 120));
}"""

# Drawings that have no table with them, in the section that they stand in; a picture on a button is its face.
UNREAD = """() => [...document.querySelectorAll('main :is(.field, .plot, svg.drawing, :not(button) > canvas)')]
  .filter(e => e.checkVisibility() && !e.closest('section').querySelector('.twin, table'))
  .map(e => e.outerHTML.slice(0, 120))"""

# Of every text: the ratio of its colour to what is painted behind it.
FAINT = """least => {
  const numbers = text => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = e => {
    for (; e; e = e.parentElement) {
      const filled = e instanceof SVGGElement && e.querySelector(':scope > rect');
      const [r, g, b, a = 1] = numbers(filled ? getComputedStyle(filled).fill : getComputedStyle(e).backgroundColor);
      if (a > 0.5) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !e.checkVisibility() || e.closest('.hidden, .skip, noscript, option, title')) continue;
    const style = getComputedStyle(e);
    const [a, b] = [luminance(numbers(e instanceof SVGElement ? style.fill : style.color)), luminance(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least) found.push(`${ratio.toFixed(2)} ${e.outerHTML.slice(0, 160)}`);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def address(serve: Any, small_runs: dict[str, Path]) -> Iterator[str]:
    """Of the frozen run, and of some that have a log and checkpoints."""
    with serve([FROZEN, *small_runs.values()]) as where:
        yield where


@pytest.mark.parametrize("where", VIEWS)
def test_every_control_has_a_name(open_page: Any, where: str) -> None:
    assert open_page(where).evaluate(UNNAMED) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("where", VIEWS)
def test_text_can_be_read(open_page: Any, where: str, theme: str) -> None:
    assert open_page(where, color_scheme=theme).evaluate(FAINT, LEAST) == []


def test_the_switch_of_colours(open_page: Any) -> None:
    page = open_page(color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.select_option("#theme", "dark")
    assert page.evaluate(ground) != light


@pytest.mark.parametrize("where", VIEWS)
def test_the_page_has_an_outline(open_page: Any, where: str) -> None:
    page = open_page(where)
    assert page.locator("h1").count() == 1
    assert page.locator("body > :is(main, nav, header)").count() == 3
    levels = page.locator("h1, h2, h3").evaluate_all("all => all.map(one => Number(one.tagName[1]))")
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert page.evaluate("document.documentElement.lang") == "en"


@pytest.mark.parametrize("where", VIEWS)
def test_what_is_drawn_can_be_read(open_page: Any, where: str) -> None:
    page = open_page(where)
    assert page.evaluate(UNREAD) == []
    for twin in page.locator(".twin > summary").all():
        if twin.is_visible():
            twin.click()
    page.wait_for_function("() => [...document.querySelectorAll('.twin[open]')].every(one => one.querySelector('td'))")
    bare = "all => all.filter(one => !one.caption?.textContent.trim() || !one.querySelector('th[scope=col]')).length"
    assert page.locator("main table").evaluate_all(bare) == 0


@pytest.mark.parametrize("where", VIEWS)
def test_the_keyboard_reaches_everything(open_page: Any, where: str) -> None:
    page = open_page(where)
    focusable = """() => [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
        .filter(e => e.checkVisibility()).length"""
    wanted = page.evaluate(focusable)
    page.evaluate("document.activeElement?.blur(); window.seen = new Set()")
    for _ in range(wanted + 20):
        page.keyboard.press("Tab")
        page.evaluate("document.activeElement !== document.body && window.seen.add(document.activeElement)")
    assert page.evaluate("window.seen.size") >= wanted


@pytest.mark.parametrize("where", VIEWS)
def test_nothing_is_cut_off_on_a_phone(open_page: Any, where: str) -> None:
    page = open_page(where, viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_who_wants_no_motion_gets_none(open_page: Any) -> None:
    page = open_page(reduced_motion="reduce")
    moving = "() => document.getAnimations().filter(one => one.playState === 'running').length"
    assert page.evaluate(moving) == 0
    assert open_page().evaluate(moving) > 0


def test_a_block_is_opened_by_the_keyboard(open_page: Any) -> None:
    page = open_page()
    page.locator("[data-block='encoder.0.ff']").press("Enter")
    page.get_by_role("heading", name="Feed-forward encoder.0.ff").wait_for()
    page.wait_for_function("() => document.activeElement.matches('.detail h2')")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.block") == "encoder.0.ff"


@pytest.mark.parametrize(
    "where", ["#/positions", "#/stream", "#/training?run=transformer"], ids=["positions", "stream", "training"]
)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_curve_can_be_seen(open_page: Any, where: str, theme: str) -> None:
    page = open_page(where, color_scheme=theme)
    page.wait_for_selector(".curve", state="attached")
    strokes = page.eval_on_selector_all(".curve", "curves => curves.map(one => getComputedStyle(one).stroke)")
    assert strokes and all(stroke.startswith("rgb(") for stroke in strokes)
