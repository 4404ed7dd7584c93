"""The pages of the service in a real browser: / with its word alignment, and /docs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("py3langid", reason="the service is an extra")
import uvicorn

from glassformer.serving.app import application
from glassformer.serving.options import ServeOptions
from glassformer.serving.pool import Pool
from tests.untrained_runs import trained_run


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pool = Pool({"en-fr": trained_run(tmp_path_factory.mktemp("served") / "en-fr")}, workers=1)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application(pool, ServeOptions()), log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(locale="en-GB", viewport={"width": 1280, "height": 800})
    context.set_default_timeout(300_000)
    yield context.new_page()
    context.close()


@pytest.fixture
def requested(page: Any) -> list[str]:
    """The addresses that the page asks for."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url))
    return found


def test_words_are_marked_with_the_words_that_they_are_aligned_with(
    page: Any, service: str, requested: list[str]
) -> None:
    page.goto(f"{service}/")
    page.locator("#target option").first.wait_for(state="attached")
    page.fill("#text", "I am a student.")
    page.keyboard.press("Control+Enter")
    target = page.locator(".target .word")
    target.first.wait_for()
    assert target.all_text_contents() == ["Je", "suis", "étudiant."]
    target.nth(2).hover()
    assert "student." in page.locator(".word.now").all_text_contents()
    page.mouse.move(0, 0)
    assert page.locator(".word.now").count() == 0
    page.locator(".sentence .word").nth(3).focus()  # also with the keyboard
    assert "étudiant." in page.locator(".word.now").all_text_contents()
    assert all(url.startswith(service) for url in requested)


def test_korean_errors_and_a_narrow_screen(page: Any, service: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{service}/")
    page.locator("#target option").first.wait_for(state="attached")
    page.select_option("#page-language", "ko")
    page.get_by_role("button", name="번역하기").wait_for()
    assert page.locator("#target").inner_text() == "프랑스어"
    page.fill("#text", "word " * 500)
    page.keyboard.press("Control+Enter")
    page.locator("#status.problem").wait_for()
    assert "서비스가 응답하지 않았습니다" in page.locator("#status").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_description_has_examples_that_run_and_loads_nothing_from_elsewhere(
    page: Any, service: str, requested: list[str]
) -> None:
    page.goto(f"{service}/docs")
    translate = page.locator("details", has=page.get_by_text("/translate", exact=True)).first
    translate.locator("summary").click()
    translate.get_by_role("button").click()
    translate.get_by_text("translatedText").wait_for()
    assert "HTTP 200" in translate.locator("pre").last.inner_text()
    assert page.locator("details").count() > 15
    assert all(url.startswith(service) for url in requested)
