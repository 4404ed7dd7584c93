"""The loop, on a task made for the purpose: fit one number to the mean of the data."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.errors import UserError
from glassformer.run import RunFolder, read_weights
from glassformer.settings import TrainSettings
from glassformer.text.batching import Position
from glassformer.training.checkpoint import Checkpoints, TrainState, Validation
from glassformer.training.events import Event, Finished, Progress, Saved, Validated
from glassformer.training.trainer import Trainer


@dataclass
class Numbers:
    values: list[float]
    next: Position


class MeanTask:
    """Squared distance to batches of different sizes; the score falls from the third validation on."""

    metric = "score"

    def __init__(self, batches: list[list[float]]) -> None:
        self.data, self.evaluations = batches, 0
        self.scores = [1.0, 2.0, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5, 0.4, 0.3]

    def batches(self, seed: int, position: Position) -> Iterator[Numbers]:
        i = position.batch
        while True:
            yield Numbers(self.data[i % len(self.data)], Position(0, i + 1))
            i += 1

    def loss(self, model: Any, batch: Numbers) -> tuple[Tensor, int]:
        values = torch.tensor(batch.values)
        return (model.weight - values).pow(2).sum(), len(values)

    def evaluate(self, model: Any) -> dict[str, float]:
        self.evaluations += 1
        return {"score": self.scores[self.evaluations - 1], "loss": 1.0}


class OneNumber(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))


def settings(**over: Any) -> TrainSettings:
    given = {
        "steps": 12,
        "batch_tokens": 10,
        "lr": 0.1,
        "warmup": 1,
        "validate_every": 3,
        "checkpoint_every": 3,
        "patience": 0,
        "clip": 0.0,
        "average": 2,
    }
    return TrainSettings(**(given | over))


def trainer(
    tmp_path: Path, batches: list[list[float]], events: list[Event] | None = None, **over: Any
) -> tuple[Trainer, MeanTask]:
    task = MeanTask(batches)
    listener = events.append if events is not None else (lambda event: None)
    return Trainer(OneNumber(), task, settings(**over), RunFolder(tmp_path / "run"), listener), task


def test_loss_is_divided_once_by_the_true_count(tmp_path: Path) -> None:
    """Batches of 1 and 3 numbers, accumulated, give the very gradient of one batch of 4."""
    apart, _ = trainer(tmp_path / "a", [[1.0], [2.0, 5.0, 7.0]], accumulate=2)
    together, _ = trainer(tmp_path / "b", [[1.0, 2.0, 5.0, 7.0]])
    norms = [t._step(t._batches())[3] for t in (apart, together) if setattr(t.state, "step", 1) is None]
    assert norms[0] == pytest.approx(2 * 3.75)  # d/dw mean (w − x)² at w = 0: −2 · mean
    assert norms[0] == norms[1]
    assert apart.model.weight.equal(together.model.weight)


def test_events_come_at_their_steps(tmp_path: Path) -> None:
    events: list[Event] = []
    loop, task = trainer(tmp_path, [[1.0, 3.0]], events, checkpoint_every=4)
    assert loop.train() == "steps"
    assert [e.step for e in events if isinstance(e, Validated)] == [3, 6, 9, 12]
    assert [e.best for e in events if isinstance(e, Validated)] == [True, True, True, False]
    # every fourth step, every validation that is among the best two, and the last step
    assert [e.step for e in events if isinstance(e, Saved)] == [3, 4, 6, 8, 9, 12]
    assert [e.step for e in events if isinstance(e, Progress)] == [10]
    assert isinstance(events[-1], Finished) and events[-1].reason == "steps"
    assert task.evaluations == 4


def test_patience_ends_it_after_so_many_validations_without_a_better_score(tmp_path: Path) -> None:
    loop, _ = trainer(tmp_path, [[1.0]], steps=100, patience=2)
    assert loop.train() == "patience"
    assert loop.state.step == 15  # best at the third validation, step 9; two more without a better one


def test_only_the_best_and_the_last_checkpoints_stay(tmp_path: Path) -> None:
    loop, _ = trainer(tmp_path, [[1.0]], steps=18, average=2)
    loop.train()
    assert loop.checkpoints.steps() == [9, 12, 18]  # scores 3.0 and 2.5, and the newest
    assert loop.checkpoints.newest() == 18
    assert not (loop.checkpoints.path(9) / "optimizer.safetensors").exists()


def test_model_file_holds_the_best_weights(tmp_path: Path) -> None:
    loop, _ = trainer(tmp_path, [[1.0]], steps=18)
    loop.train()
    best = read_weights(loop.checkpoints.path(9) / "model.safetensors")["weight"]
    assert read_weights(loop.folder.model)["weight"].equal(best)
    assert not best.equal(loop.model.weight)


def test_average_is_the_mean_of_the_weights(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step, value in ((1, 1.0), (2, 2.0), (4, 6.0)):
        best = [Validation(s, 1.0, 1.0) for s in (1, 2, 4)]
        checkpoints.save(TrainState(step=step, best=best), {"w": torch.tensor([value])}, {})
    assert checkpoints.average([1, 2, 4])["w"].tolist() == [3.0]


def test_equal_scores_are_ranked_by_loss() -> None:
    assert Validation(1, 50.0, 1.0).rank < Validation(2, 50.0, 0.9).rank < Validation(3, 50.1, 5.0).rank


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_after_the_step_and_saves(tmp_path: Path, number: signal.Signals) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, Validated) and event.step == 6:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    loop = Trainer(OneNumber(), MeanTask([[1.0]]), settings(), RunFolder(tmp_path), interrupt)
    assert loop.train() == "interrupted"
    assert loop.state.step == 6
    assert loop.checkpoints.newest() == 6
    assert signal.getsignal(number) == before


def test_numbers_that_run_away_end_it_with_advice(tmp_path: Path) -> None:
    loop, _ = trainer(tmp_path, [[1.0], [float("inf")]])
    with pytest.raises(UserError, match=r"at step 2 .*\n.*\n.*lower train.lr"):
        loop.train()


def test_random_state_is_restored(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    torch.manual_seed(5)
    torch.rand(3)
    checkpoints.save(TrainState(step=1), {"w": torch.zeros(1)}, {})
    expected = torch.rand(3)
    torch.manual_seed(6)
    checkpoints.load(1)
    assert torch.rand(3).equal(expected)
