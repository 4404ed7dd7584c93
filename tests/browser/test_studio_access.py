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
    "#/worksheet?block=encoder.0.self&tensor=encoder.0.self.output",  # the concatenated heads
    "#/worksheet?block=encoder.0.ff",
    "#/worksheet?block=argmax",
    "#/worksheet?run=elmo&text=The+cat+is+small.",
    "#/image?run=vit&image=0&row=2",
    "#/attention?kind=encoder&row=1",
    "#/attention?kind=encoder&head=mean",
    "#/attention?kind=cross&as=lines&row=1",
    "#/recurrent?run=gru",
    "#/embeddings",
    "#/decode?step=1&given=Je+suis",
    "#/decode?run=gpt&text=The+cat",
    "#/contrast?step=1",
    "#/gradient",
    "#/gradient?part=head&kind=decoder",
    "#/gradient?part=time",
    "#/flow?step=4",
    "#/worked?cell=scores,1,2",
    "#/positions?part=order",
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
def address(serve: Any, small_runs: dict[str, Path], lesson_runs: list[Path]) -> Iterator[str]:
    """Of the frozen run, of some that have a log and checkpoints, and of other families."""
    others = [run for run in lesson_runs if run.name in ("elmo", "gpt", "vit")]
    with serve([FROZEN, *small_runs.values(), *others]) as where:
        yield where


@pytest.mark.parametrize("where", VIEWS)
def test_a_view_can_be_used_by_everybody(open_page: Any, where: str) -> None:
    """Controls have names, text has contrast, headings are an outline, and the keyboard reaches everything."""
    page = open_page(where, color_scheme="light")
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate(FAINT, LEAST) == []
    _assert_outline(page)
    _assert_keyboard_reaches_everything(page)
    _assert_drawings_can_be_read(page)


@pytest.mark.parametrize("where", VIEWS)
def test_a_view_in_the_dark_and_on_a_phone(open_page: Any, where: str) -> None:
    page = open_page(where, color_scheme="dark")
    assert page.evaluate(FAINT, LEAST) == []
    page.set_viewport_size({"width": 360, "height": 740})
    page.reload()
    page.wait_for_selector(".view, .problem, main > .empty:not(.waiting)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def _assert_outline(page: Any) -> None:
    assert page.locator("h1").count() == 1
    assert page.locator("body > :is(main, nav, header)").count() == 3
    levels = page.locator("h1, h2, h3").evaluate_all("all => all.map(one => Number(one.tagName[1]))")
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert page.evaluate("document.documentElement.lang") == "en"


def _assert_drawings_can_be_read(page: Any) -> None:
    assert page.evaluate(UNREAD) == []
    for twin in page.locator(".twin > summary").all():
        if twin.is_visible():
            twin.click()
    page.wait_for_function("() => [...document.querySelectorAll('.twin[open]')].every(one => one.querySelector('td'))")
    bare = "all => all.filter(one => !one.caption?.textContent.trim() || !one.querySelector('th[scope=col]')).length"
    assert page.locator("main table").evaluate_all(bare) == 0


def _assert_keyboard_reaches_everything(page: Any) -> None:
    focusable = """() => [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
        .filter(e => e.checkVisibility()).length"""
    wanted = page.evaluate(focusable)
    page.evaluate("""() => {
      document.activeElement?.blur();
      window.seen = new Set();
      document.addEventListener('focusin', event => window.seen.add(event.target));
    }""")
    for _ in range(3 * wanted):  # an embedded view has controls of its own, which are not counted here
        page.keyboard.press("Tab")
        if page.evaluate("window.seen.size") >= wanted:
            return
    pytest.fail(f"{page.evaluate('window.seen.size')} of {wanted} controls are reached")


def test_the_switch_of_colours(open_page: Any) -> None:
    page = open_page(color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.select_option("#theme", "dark")
    assert page.evaluate(ground) != light


def test_who_wants_no_motion_gets_none(open_page: Any) -> None:
    page = open_page(reduced_motion="reduce")
    moving = "() => document.getAnimations().filter(one => one.playState === 'running').length"
    assert page.evaluate(moving) == 0
    assert open_page().evaluate(moving) > 0


def test_a_block_is_opened_by_the_keyboard(open_page: Any) -> None:
    page = open_page()
    page.locator("[data-block='encoder.0.ff']").press("Enter")
    page.get_by_role("heading", name="Feed-forward Encoder, layer 1").wait_for()
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
