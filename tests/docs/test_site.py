"""The site builds without warnings, loads nothing from other machines, and has every page in both languages."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pages import ROOT, read
from playwright.sync_api import Browser, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from glassformer.cli import COMMANDS
from glassformer.lessons import lessons

pytest.importorskip("mkdocs", reason="MkDocs is not installed: pip install 'glassformer[docs]'")
pytestmark = pytest.mark.slow

LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "object": "data"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # strict: fails at warnings
    assert done.returncode == 0, done.stderr
    return folder


class Loads(HTMLParser):
    """Collects the addresses that a browser loads for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in LOADED and given.get("rel") not in ("alternate", "canonical", "next", "prev"):
            self.found.append(given.get(LOADED[tag]) or "")


def test_nothing_is_loaded_from_other_machines(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        assert loads.found and not [url for url in loads.found if "//" in url], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_every_lesson_and_command_has_its_place(site: Path) -> None:
    for language, folder in (("en", site), ("ko", site / "ko")):
        listed = (folder / "lessons" / "index.html").read_text(encoding="utf-8")
        for lesson in lessons(language):
            page = (folder / "lessons" / f"{lesson.name}.html").read_text(encoding="utf-8")
            assert f'href="{lesson.name}.html"' in listed
            assert page.count("http://127.0.0.1:8000/#/") == len(lesson.of_kind("view"))
            assert page.count("admonition question") == len(lesson.of_kind("exercise"))
    commands = (site / "commands.html").read_text(encoding="utf-8")
    assert not [name for name in COMMANDS if f'<h2 id="{name}">' not in commands]


def test_the_notebook_was_run(site: Path) -> None:
    page = (site / "notebooks" / "tour.html").read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(read("docs/notebooks/tour.ipynb"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    assert page.count('<div class="output">') >= len(cells) - 1
    assert re.search(r"BLEU: Transformer [\d.]+, GRU without attention [\d.]+", page) and "<svg" in page


def search(page: Page, address: str, words: str) -> list[str]:
    """Open a page, search for words, and return the titles of the results."""
    page.goto(address)
    page.wait_for_function("typeof __index === 'object'")  # the index is loaded
    query, results = page.locator("[data-md-component=search-query]").first, page.locator(".md-search-result__item h1")
    for _ in range(10):  # words that are typed before the search is ready find nothing
        query.click()
        query.fill("")
        page.keyboard.type(words, delay=20)
        with contextlib.suppress(PlaywrightTimeout):
            results.first.wait_for(state="attached", timeout=5_000)
            return results.all_inner_texts()
    pytest.fail(f"nothing is found for {words}")


def test_search_works_from_a_folder(site: Path, chromium: Browser) -> None:
    asked: list[str] = []
    page = chromium.new_page()
    page.on("request", lambda request: asked.append(request.url))
    english = search(page, (site / "index.html").as_uri(), "teacher forcing")
    page.close()
    assert any("Train mode and test mode" in title for title in english)
    index = json.loads((site / "search" / "search_index.js").read_text(encoding="utf-8").removeprefix("var __index = "))
    assert "파인튜닝" in [one["title"] for one in index["docs"] if one["location"].startswith("ko/")]
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))]
