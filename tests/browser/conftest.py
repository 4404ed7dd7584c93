"""The studio in a real browser: Debian's Chromium, driven by Playwright, against a real server on this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.untrained_runs import SMALL_GPT, untrained_run

FROZEN = Path(__file__).parents[1] / "compat" / "runs" / "format-1"
READY = 90_000  # milliseconds: a page that takes as long is broken, however busy the machine is
UNTRAINED: dict[str, dict[str, Any]] = {
    "gru": {"data": {"train": ["a", "b"]}, "model": {"family": "recurrent", "d_model": 24, "layers": 1, "dropout": 0}},
    "rotary": {
        "data": {"train": ["a", "b"]},
        "model": {"layers": 1, "d_model": 24, "heads": 3, "d_ff": 37, "dropout": 0, "positions": "rotary"},
    },
    "gpt": {
        "task": "language_model",
        "data": {"train": ["a"]},
        "model": SMALL_GPT,
    },
}


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of other families, with the weights that they begin with: enough to see how a view takes them."""
    folder = tmp_path_factory.mktemp("runs")
    return {name: untrained_run(folder / name, raw) for name, raw in UNTRAINED.items()}


@pytest.fixture(scope="session")
def lesson_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The models of the lessons, by the names that the lessons use."""
    from lesson_runs import train_lesson_models

    return train_lesson_models(tmp_path_factory.mktemp("lessons"))


@pytest.fixture(scope="session")
def address(untrained: dict[str, Path]) -> Iterator[str]:
    """Where a studio is served, of the phrasebook's frozen run and some untrained ones behind it."""
    with serving([FROZEN, *untrained.values()]) as where:
        yield where


@pytest.fixture(scope="session")
def serve() -> Any:
    """`with serve([run, …]) as address`: a studio of other runs."""
    return serving


@contextmanager
def serving(runs: list[Path]) -> Iterator[str]:
    uvicorn = pytest.importorskip("uvicorn", reason="the studio is an extra")
    from glassformer.studio.app import studio

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(studio(runs), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=10)


@pytest.fixture
def open_page(chromium: Any, address: str) -> Iterator[Any]:
    """`open_page("#/attention", locale="ko")`. No console error and no request beyond this machine, in any test.

    With `refusals`, requests may be refused: the browser itself notes each in the console, whatever a page does.
    """
    contexts, wrong = [], []

    def open_at(where: str = "", *, refusals: bool = False, **how: Any) -> Any:
        context = chromium.new_context(**({"locale": "en-GB", "viewport": {"width": 1280, "height": 800}} | how))
        context.set_default_timeout(READY)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text) if _is_wrong(said, refusals) else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: None if _is_here(asked.url, address) else wrong.append(f"asked {asked.url}"))
        page.goto(f"{address}/{where}")
        page.wait_for_selector(".view, .problem, main > .empty:not(.waiting)")
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert not wrong


def _is_wrong(said: Any, refusals: bool) -> bool:
    by_browser = refusals and said.text.startswith("Failed to load resource: ")
    return said.type in ("error", "warning") and not by_browser


def _is_here(url: str, address: str) -> bool:
    return url.startswith((f"{address}/", f"blob:{address}/", "data:"))
