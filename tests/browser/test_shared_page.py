"""The page of `glassformer export --to page` in a real browser, opened from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.interop.page_check import native_answers
from glassformer.interop.page_export import PageRun, load_page_run, page_html
from glassformer.phrasebook.corpus import phrasebook
from glassformer.text.special_tokens import EOS
from tests.browser.conftest import FROZEN, READY

SENTENCES = [triple.english for triple in phrasebook(size=300).train[:200]]


@pytest.fixture(scope="module")
def run() -> PageRun:
    return load_page_run(FROZEN)


@pytest.fixture(scope="module")
def file(run: PageRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "model.html"
    path.write_text(page_html(run, "phrasebook", ["I am a student"]), encoding="utf-8")
    return path


@pytest.fixture(params=[(1280, "light", "en-GB"), (390, "dark", "ko-KR")], ids=["desktop", "phone"])
def page(request: Any, chromium: Any, file: Path) -> Iterator[Any]:
    """The page, which asks for nothing but its own file."""
    width, scheme, locale = request.param
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, locale=locale)
    context.set_default_timeout(READY)
    opened, wrong, asked = context.new_page(), list[str](), list[str]()
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda said: wrong.append(said.text))
    opened.on("request", lambda one: asked.append(one.url))
    opened.goto(file.as_uri())
    opened.wait_for_selector("#steps table")
    yield opened
    assert not wrong
    assert asked == [file.as_uri()]
    context.close()


def test_translation_attention_and_steps(page: Any, run: PageRun) -> None:
    (expected,) = native_answers(run, ["I am a student"], 1)
    assert page.inner_text("#output") == run.run.tokenizer.decode(expected)
    assert page.locator("#steps tbody tr").count() == len(expected) + 1
    assert page.locator("#steps tbody tr").first.locator(".choice").count() == 5
    layers, heads = 2, 4
    for kind in ("cross", "encoder", "decoder"):
        page.select_option("#attention select", kind)
        assert page.locator(".maps button").count() == layers * heads
    page.select_option("#attention select", "cross")
    page.locator(".maps button").last.focus()
    page.keyboard.press("Enter")
    chosen = page.locator('.maps button[aria-pressed="true"]')
    assert chosen.get_attribute("aria-label") in ("Layer 2, head 4", "2층, 헤드 4")
    page.locator(".weights tbody td").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".readout").startswith("<sos> → ")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_language_and_empty_input(page: Any) -> None:
    other = {"en": "ko", "ko": "en"}[page.get_attribute("html", "lang")]
    page.click("#language")
    assert page.get_attribute("html", "lang") == other
    page.fill("#text", " ")
    page.keyboard.press("Enter")
    assert page.inner_text("#output") == ""
    assert page.inner_text("#status") == {"en": "Enter some text.", "ko": "글을 입력하세요."}[other]
    page.fill("#text", "<script>alert(1)</script> 안녕 😀")
    page.click("button.primary")
    page.wait_for_selector("#steps table")


def test_the_tokens_are_those_of_the_native_engine(chromium: Any, file: Path, run: PageRun) -> None:
    page = chromium.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector("#steps table", timeout=READY)
    found = page.evaluate("texts => texts.map(text => glassformerPage.run(text).steps)", SENTENCES)
    expected = native_answers(run, SENTENCES, 1)
    differing = 0
    for steps, tokens in zip(found, expected, strict=True):
        both = zip(steps, [*tokens, EOS], strict=False)
        if first := next(((step, token) for step, token in both if step["token"] != token), None):
            # The kernels of two CPUs round sums differently, which decides between tokens of the same probability.
            step, token = first
            chances = {one["token"]: one["probability"] for one in step["candidates"]}
            assert chances[step["token"]] - chances[token] < 0.05
            differing += 1
    assert differing <= 4
    page.close()


def test_the_page_may_not_connect(chromium: Any, file: Path) -> None:
    page = chromium.new_page()
    page.goto(file.as_uri())
    refused = page.evaluate(
        """() => new Promise(resolve => {
          document.addEventListener("securitypolicyviolation", event => resolve(event.effectiveDirective));
          fetch("data:,x").then(() => resolve("loaded"), () => {});
        })"""
    )
    assert refused == "connect-src"
    page.close()
