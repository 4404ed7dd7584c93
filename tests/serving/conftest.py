"""One service for all tests of this folder: a translation model that is trained, and small models of other tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service is an extra")
pytest.importorskip("py3langid", reason="the service is an extra")
from server_process import ServerProcess

from tests.untrained_runs import SMALL_GPT, trained_run, untrained_run

SMALL_BERT = SMALL_GPT | {"family": "bert", "pooling": "first"}


@pytest.fixture(scope="session")
def other_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("served")
    return [
        untrained_run(folder / "story", {"task": "language_model", "data": {"train": ["a"]}, "model": SMALL_GPT}),
        untrained_run(
            folder / "reviews",
            {"task": "classification", "data": {"train": ["a"]}, "model": SMALL_BERT},
            labels=["good", "bad"],
        ),
    ]


@pytest.fixture(scope="session")
def english_french(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("served") / "en-fr")


@pytest.fixture(scope="session")
def server(english_french: Path, other_runs: list[Path]) -> Iterator[ServerProcess]:
    """The service without keys, as it is started for one's own machine."""
    running = ServerProcess(english_french, *other_runs, "--max-tokens", "64")
    running.wait_until_ready()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def french(english_french: Path) -> dict[str, str]:
    """Translations of the model, as `glassformer translate` prints them."""
    from glassformer.inference.translator import load_translator

    lines = ["I am a student.", "The cat sleeps.", "She reads a book."]
    return dict(zip(lines, load_translator(english_french)(lines), strict=True))
