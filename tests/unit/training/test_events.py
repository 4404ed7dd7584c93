"""Progress display of preparation and training."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from glassformer.cli.console import TrainingView
from glassformer.training.events import Event, Note, Preparing, Progress, Started, Validated, preparation_progress


def test_quick_preparation_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Event] = []
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    progress = preparation_progress(said.append)
    for now, pairs in ((101.9, 10), (102.1, 20), (102.3, 30), (102.7, 40)):  # noqa: B007
        progress("reading", pairs, None)
    assert said == [Preparing("reading", 20, None), Preparing("reading", 40, None)]


def test_progress_without_a_terminal_is_plain_lines() -> None:
    out = io.StringIO()
    with TrainingView(Console(file=out)) as view:
        view(Preparing("encoding", 2000, 5000))
        view(Preparing("encoding", 2500, 5000))
        view(Note("done"))
    assert out.getvalue().splitlines() == ["encoding: 2,000 of 5,000 pairs", "done"]


def test_the_progress_bar_ends_before_the_next_message() -> None:
    out = io.StringIO()
    with TrainingView(Console(file=out, force_terminal=True, width=100)) as view:
        view(Preparing("reading", 2000, None))
        view(Preparing("encoding", 4000, 5000))
        view(Note("done"))
        assert view._preparation is None
    assert "4,000 pairs" in out.getvalue() and out.getvalue().rstrip().endswith("done")


def test_speed_and_scores_have_the_names_of_the_task() -> None:
    out = io.StringIO()
    with TrainingView(Console(file=out)) as view:
        view(Started(0, 40, 1000, "cpu", unit="images"))
        view(Validated(10, {"loss": 0.5, "exact_match": 12.34, "bleu": 31.07}, True, 1.0))
        view(Progress(step=10, epoch=0, loss=1.25, lr=0.001, gradient_norm=0.5, tokens_per_second=2011.0))
    assert "step 10: valid  loss 0.500  exact match 12.3  BLEU 31.1  (best)" in out.getvalue()
    assert "loss 1.250  BLEU 31.1  2,011 images/s" in out.getvalue()
