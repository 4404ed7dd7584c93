"""The training loop, on a toy task: fit one number to the mean of the data."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.data.batching import Position
from glassformer.errors import UserError
from glassformer.inference.run import read_weights
from glassformer.inference.run_folder import RunFolder
from glassformer.settings import TrainSettings
from glassformer.training.checkpoint import Checkpoints, TrainState, Validation
from glassformer.training.events import Event, Finished, Note, Progress, Saved, Skipped, Validated, ignore
from glassformer.training.signals import Interrupt
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
        self.course = [1.0, 2.0, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5, 0.4, 0.3]

    def batches(self, seed: int, position: Position) -> Iterator[Numbers]:
        i = position.batch
        while True:
            yield Numbers(self.data[i % len(self.data)], Position(0, i + 1))
            i += 1

    def loss(self, model: Any, batch: Numbers) -> tuple[Tensor, int]:
        values = torch.tensor(batch.values)
        return (model.weight - values).pow(2).sum(), len(values)

    def shard_batch(self, batch: Numbers, number: int, of: int) -> Numbers | None:
        values = batch.values[number::of]
        return Numbers(values, batch.next) if values else None

    def locations(self, batch: Numbers) -> list[str]:
        return [f"numbers:{value}" for value in batch.values]

    signature = ""

    def evaluate_shard(self, model: Any, number: int, of: int, *, split: str = "valid", final: bool = False) -> float:
        self.evaluations += 1
        return self.course[self.evaluations - 1]

    def scores(self, shares: list[float], *, split: str = "valid") -> dict[str, float]:
        return {"score": sum(shares) / len(shares), "loss": 1.0}


class OneNumber(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))


def weight_of(loop: Trainer) -> Tensor:
    return loop.training_model.weights()["weight"]


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
    """Accumulated batches of 1 and 3 numbers give exactly the gradient of one batch of 4."""
    apart, _ = trainer(tmp_path / "a", [[1.0], [2.0, 5.0, 7.0]], accumulate=2)
    together, _ = trainer(tmp_path / "b", [[1.0, 2.0, 5.0, 7.0]])
    norms = []
    for loop in (apart, together):
        loop.state.step = 1
        batches = loop.task.batches(loop.settings.seed, loop.state.position)
        norms.append(loop._step(batches, Interrupt())[0][3])
    assert norms[0] == pytest.approx(2 * 3.75)  # d/dw mean (w − x)² at w = 0: −2 · mean
    assert norms[0] == norms[1]
    assert weight_of(apart).equal(weight_of(together))


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


def test_early_stopping_after_patience_validations_without_improvement(tmp_path: Path) -> None:
    loop, _ = trainer(tmp_path, [[1.0]], steps=100, patience=2)
    assert loop.train() == "patience"
    assert loop.state.step == 15  # best at the third validation, step 9; two more without a better one


def test_the_time_limit_ends_with_a_validation_and_can_be_raised(tmp_path: Path) -> None:
    events: list[Event] = []
    loop, _ = trainer(tmp_path, [[1.0], [3.0]], events, minutes=1e-9)
    assert loop.train() == "time"
    assert [event.step for event in events if isinstance(event, Validated | Saved | Finished)] == [1, 1, 1]

    again, task = trainer(tmp_path, [[1.0], [3.0]], minutes=1e-9)
    assert again.resume()
    assert (again.train(), again.state.step, task.evaluations) == ("time", 1, 0)  # all of its time is used

    longer, _ = trainer(tmp_path, [[1.0], [3.0]], minutes=10)
    assert longer.resume()
    assert (longer.train(), longer.state.step) == ("steps", 12)
    assert longer.state.seconds > loop.state.seconds
    straight, _ = trainer(tmp_path / "straight", [[1.0], [3.0]])
    straight.train()
    assert weight_of(longer).equal(weight_of(straight))


def test_only_the_best_and_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    loop, _ = trainer(tmp_path, [[1.0]], steps=18, average=2)
    loop.train()
    found = {path.name for path in loop.folder.checkpoints.iterdir()}
    assert found == {"best-9", "best-12", "step-15", "step-18"}  # scores 3.0 and 2.5, and the newest two
    assert {file.name for file in (loop.folder.checkpoints / "best-9").iterdir()} == {
        "model.safetensors",
        "checksums.json",
    }
    assert not any(loop.checkpoints.damage(step) for step in (15, 18))
    assert not any(loop.checkpoints.damage_of_weights(step) for step in (9, 12))


def test_the_model_file_has_the_best_weights(tmp_path: Path) -> None:
    loop, _ = trainer(tmp_path, [[1.0]], steps=18)
    loop.train()
    best = loop.checkpoints.weights(9)["weight"]
    assert read_weights(loop.folder.model)["weight"].equal(best)
    assert not best.equal(weight_of(loop))


def test_average_is_the_mean_of_the_weights(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step, value in ((1, 1.0), (2, 2.0), (4, 6.0)):
        best = [Validation(s, 1.0, 1.0) for s in (1, 2, 4)]
        checkpoints.save(TrainState(step=step, best=best), {"w": torch.tensor([value])}, {})
    assert checkpoints.average([1, 2, 4])["w"].tolist() == [3.0]


@pytest.mark.parametrize(("keep_all", "kept"), [(False, [2, 3, 4]), (True, [1, 2, 3, 4])])
def test_the_weights_of_all_checkpoints_can_be_kept(tmp_path: Path, keep_all: bool, kept: list[int]) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1, keep_all=keep_all)
    for step in (1, 2, 3, 4):
        state = TrainState(step=step, best=[Validation(2, 1.0, 1.0)])
        checkpoints.save(state, {"w": torch.tensor([float(step)])}, {"m": torch.zeros(1)})
    assert checkpoints.steps_with_weights() == kept
    assert checkpoints.steps() == [3, 4]
    assert [checkpoints.weights(step)["w"].item() for step in kept] == kept
    assert not (tmp_path / "best-2" / "optimizer.safetensors").exists()
    checkpoints.save(TrainState(step=3), {"w": torch.tensor([9.0])}, {})  # a run that went back: 4 is yet to come
    assert checkpoints.steps_with_weights() == [step for step in kept if step < 4 and (keep_all or step != 2)]
    assert checkpoints.weights(3)["w"].item() == 9


def test_equal_scores_are_ranked_by_loss() -> None:
    assert Validation(1, 50.0, 1.0).rank < Validation(2, 50.0, 0.9).rank < Validation(3, 50.1, 5.0).rank
    assert Validation(4, 50.0, math.nan).rank < Validation(1, 50.0, 1.0).rank
    assert Validation(5, math.nan, math.nan).rank < Validation(6, -7.0, 7.0).rank  # the score may be −loss


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_after_the_step(tmp_path: Path, number: signal.Signals) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, Validated) and event.step == 6:
            signal.raise_signal(number)

    before = signal.getsignal(number)
    loop = Trainer(OneNumber(), MeanTask([[1.0]]), settings(), RunFolder(tmp_path), interrupt)
    assert loop.train() == "interrupted"
    assert loop.state.step == 6
    assert loop.checkpoints.steps()[-1] == 6
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_non_finite_step_is_skipped_and_reported(tmp_path: Path, bad: float) -> None:
    events: list[Event] = []
    loop, _ = trainer(tmp_path, [[1.0], [bad, 2.0], [3.0]], events)
    loop.train()
    skipped = [event for event in events if isinstance(event, Skipped)]
    assert [event.step for event in skipped] == [2, 5, 8, 11]
    assert skipped[0].lines == [f"numbers:{bad}", "numbers:2.0"]
    assert (loop.state.skipped, loop.state.skipped_in_a_row) == (4, 0)
    assert 0 < float(weight_of(loop).detach()) < 3
    assert all(math.isfinite(event.loss) for event in events if isinstance(event, Progress))


def test_divergence_is_an_error_with_a_hint(tmp_path: Path) -> None:
    loop, _ = trainer(tmp_path, [[1.0]] + 20 * [[float("inf")]], steps=30, validate_every=100)
    with pytest.raises(UserError, match=r"diverged: .* in 10 consecutive steps \(step 11\)(.|\n)*lower train.lr"):
        loop.train()


def test_divergence_that_only_the_validation_shows_is_an_error(tmp_path: Path) -> None:
    class NoNumbers(MeanTask):
        def scores(self, shares: list[float], *, split: str = "valid") -> dict[str, float]:
            return super().scores(shares, split=split) | {"loss": math.nan}

    chosen = settings(steps=2, validate_every=1, weight_decay=0.1)
    loop = Trainer(OneNumber(), NoNumbers([[1.0]]), chosen, RunFolder(tmp_path), ignore)
    with pytest.raises(UserError, match=r"validation loss is not a number(.|\n)*lower train.lr or train.weight_decay"):
        loop.train()


class Cramped(MeanTask):
    """Runs out of memory for batches of more than two values, or another number."""

    room = 2

    def loss(self, model: Any, batch: Numbers) -> tuple[Tensor, int]:
        loss, count = super().loss(model, batch)
        if count > self.room:
            loss.backward()  # the part computed before the memory ran out must not count
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")
        return loss, count


def test_a_batch_that_does_not_fit_into_memory_is_split(tmp_path: Path) -> None:
    batches = [[1.0, 2.0, 3.0, 4.0, 9.0], [5.0], [6.0, 8.0, 7.0]]
    roomy, _ = trainer(tmp_path / "roomy", batches, accumulate=2)
    roomy.train()
    notes: list[Event] = []
    cramped = Trainer(OneNumber(), Cramped(batches), settings(accumulate=2), RunFolder(tmp_path / "run"), notes.append)
    cramped.train()
    torch.testing.assert_close(weight_of(cramped), weight_of(roomy))
    assert any("not enough memory" in event.text for event in notes if isinstance(event, Note))


def test_a_single_pair_that_does_not_fit_is_an_error_with_a_hint(tmp_path: Path) -> None:
    task = Cramped([[1.0, 2.0]])
    task.room = 0
    loop = Trainer(OneNumber(), task, settings(), RunFolder(tmp_path), lambda event: None)
    with pytest.raises(UserError, match=r"a batch of one example(.|\n)*numbers:1.0(.|\n)*data.max_words"):
        loop.train()


def test_other_errors_are_not_handled_as_out_of_memory(tmp_path: Path) -> None:
    task = MeanTask([[1.0]])
    task.loss = lambda model, batch: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        Trainer(OneNumber(), task, settings(), RunFolder(tmp_path), lambda event: None).train()


class Noisy(Cramped):
    """Records the random numbers of each step."""

    def __init__(self, batches: list[list[float]]) -> None:
        super().__init__(batches)
        self.drawn: list[float] = []

    def loss(self, model: Any, batch: Numbers) -> tuple[Tensor, int]:
        self.drawn.append(float(torch.rand(())))
        return super().loss(model, batch)


def test_random_numbers_depend_on_seed_and_step_alone(tmp_path: Path) -> None:
    def drawn(name: str, **over: Any) -> list[float]:
        task = Noisy([[1.0], [1.0, 2.0]])
        loop = Trainer(OneNumber(), task, settings(steps=4, **over), RunFolder(tmp_path / name), ignore)
        torch.rand(len(name))
        loop.train()
        return task.drawn

    once = drawn("a")
    assert len(set(once)) == 4
    assert drawn("longer name") == once
    assert not set(drawn("b", seed=2)) & set(once)


def test_a_retried_step_draws_the_same_random_numbers(tmp_path: Path) -> None:
    task = Noisy([[1.0, 2.0, 3.0]])
    Trainer(OneNumber(), task, settings(steps=1), RunFolder(tmp_path), ignore).train()
    whole, first_half, second_half = task.drawn
    assert whole == first_half != second_half
