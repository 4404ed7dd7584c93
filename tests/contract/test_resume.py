"""A run that is killed and resumed gives the same bits as an uninterrupted one."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from killed import SETTINGS, bits, train_until

import glassformer as gf
from glassformer.errors import UserError
from glassformer.inference.run import read_weights
from glassformer.tasks.translation import TranslationTask
from glassformer.training import replica
from glassformer.training.events import Event, Saved


# The first step ends before any checkpoint; 13 is inside an epoch and between checkpoints; 14 validates.
@pytest.mark.parametrize(
    ("kind", "count"), [("Started", 1), ("Progress", 1), ("Saved", 3), ("Validated", 2), ("Saved", 9)]
)
def test_killed_and_resumed_is_bit_identical(
    kind: str, count: int, corpus: tuple[str, str], uninterrupted: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train_until(kind, count, *corpus, out=run, settings=SETTINGS)
    gf.train(out=run, resume=True)

    assert bits(run) == bits(uninterrupted)
    assert not list(run.rglob("*.tmp"))


class Stopped(BaseException):
    """Ends a training in this process: a fork would not survive the threads of OpenMP."""


def test_stopped_and_resumed_with_two_threads_is_bit_identical(
    corpus: tuple[str, str], uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thread has a replica; batches of this size are divided only because the minimum is lowered."""

    def stop(event: Event) -> None:
        if isinstance(event, Saved) and event.step == 14:
            raise Stopped

    monkeypatch.setattr(replica, "MIN_TOKENS", 1)
    torch.set_num_threads(2)
    try:
        whole = gf.train(*corpus, out=tmp_path / "whole", settings=SETTINGS)
        with pytest.raises(Stopped):
            gf.train(*corpus, out=tmp_path / "run", settings=SETTINGS, listener=stop)
        resumed = gf.train(out=tmp_path / "run", resume=True)
    finally:
        torch.set_num_threads(1)
    # A SIGTERM from outside ends a training in this process as "interrupted", with fewer steps.
    assert (whole.reason, resumed.reason) == ("steps", "steps")
    assert bits(resumed.path) == bits(whole.path)
    assert bits(whole.path) != bits(uninterrupted)  # other dropout masks than with one thread


def test_interrupted_before_the_first_validation_it_is_unfinished_but_usable(
    corpus: tuple[str, str], uninterrupted: Path, tmp_path: Path
) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, Saved) and event.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    run = gf.train(*corpus, out=tmp_path / "run", settings=SETTINGS, listener=interrupt)
    assert (run.reason, run.step, run.scores) == ("interrupted", 5, {})
    assert not (run.path / "README.md").exists()
    assert gf.load(run.path).translate(["I am a student"])
    gf.train(out=run.path, resume=True)
    assert bits(run.path) == bits(uninterrupted)


def test_a_different_seed_gives_different_bits(corpus: tuple[str, str], uninterrupted: Path, tmp_path: Path) -> None:
    other = gf.train(*corpus, out=tmp_path / "run", settings=SETTINGS | {"train.seed": 2}).path
    assert bits(other) != bits(uninterrupted)


def test_resume_refuses_other_data(corpus: tuple[str, str], tmp_path: Path) -> None:
    source = tmp_path / "train.en"
    target = tmp_path / "train.fr"
    source.write_text(Path(corpus[0]).read_text(encoding="utf-8"), encoding="utf-8")
    target.write_text(Path(corpus[1]).read_text(encoding="utf-8"), encoding="utf-8")
    run = gf.train(str(source), str(target), out=tmp_path / "run", settings=SETTINGS | {"train.steps": 5}).path
    source.write_text(source.read_text(encoding="utf-8").replace("cat", "dog"), encoding="utf-8")
    with pytest.raises(UserError, match="has changed since this run started"):
        gf.train(out=run, resume=True)


def test_a_finished_run_can_be_resumed_with_more_steps(
    corpus: tuple[str, str], uninterrupted: Path, tmp_path: Path
) -> None:
    short = gf.train(*corpus, out=tmp_path / "run", settings=SETTINGS | {"train.steps": 20}).path
    gf.train(out=short, resume=True, settings={"train.steps": 40})
    longer = read_weights(short / "checkpoints" / "step-40" / "model.safetensors")
    whole = read_weights(uninterrupted / "checkpoints" / "step-40" / "model.safetensors")
    assert all(longer[name].equal(whole[name]) for name in whole)


def test_the_length_penalty_of_the_best_score_is_saved_and_used_unless_one_is_given(
    corpus: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scores(task: TranslationTask, shards: Any, *, split: str = "valid") -> dict[str, float]:
        return {"loss": 1.0, "bleu": 50 - 9 * abs(task.settings.decode.length_penalty - 1.5)}

    monkeypatch.setattr(TranslationTask, "scores", scores)
    run = gf.train(*corpus, out=tmp_path / "run", settings=SETTINGS | {"decode.beam": 2})
    assert gf.load(run.path).settings.length_penalty == 1.4
    assert run.scores["valid"].scores["bleu"] == pytest.approx(49.1)
    gf.train(out=run.path, resume=True)
    assert gf.load(run.path).settings.length_penalty == 1.4
    gf.train(out=run.path, resume=True, settings={"decode.length_penalty": 2.2, "train.steps": 41})
    assert gf.load(run.path).settings.length_penalty == 2.2
