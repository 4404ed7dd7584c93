"""The loop. It knows no model and no data: only the task."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator
from typing import Any

from torch import nn

from glassformer.errors import Message, UserError
from glassformer.inference.run import RunFolder, save_weights
from glassformer.settings import TrainSettings
from glassformer.tasks import VALID, Task
from glassformer.training.checkpoint import Checkpoints, TrainState, Validation
from glassformer.training.deferred import DeferredModel
from glassformer.training.events import (
    Event,
    Finished,
    Listener,
    Note,
    Progress,
    Saved,
    Skipped,
    Started,
    Validated,
    ignore,
)
from glassformer.training.optim import learning_rate
from glassformer.training.ranks import ALONE, Ranks
from glassformer.training.signals import Interrupt
from glassformer.training.whole import Held, Whole

PROGRESS_EVERY = 10  # steps
SKIPPED_AT_MOST = 10  # steps in a row whose numbers are not finite


class Trainer:
    """Trains a model on a task, in a run folder, until the steps, the time, the patience or the person ends it.

    In several processes, all of them run this loop side by side; only the first reads and writes the run folder.
    """

    def __init__(
        self,
        model: nn.Module | DeferredModel,
        task: Task,
        settings: TrainSettings,
        folder: RunFolder,
        listener: Listener,
        *,
        identity: str = "",
        ranks: Ranks = ALONE,
    ) -> None:
        self.task, self.settings, self.ranks = task, settings, ranks
        self.folder, self.tell = folder, listener if ranks.first else ignore
        self.held: Held
        if isinstance(model, DeferredModel):
            from glassformer.training.sharded import Sharded  # imports a good deal of PyTorch

            self.held = Sharded(model, task, ranks, settings.precision)
            model = model.model
        elif settings.shard_model and ranks.size > 1:
            raise ValueError("train.shard_model needs a DeferredModel: this model is already in memory")
        else:
            self.held = Whole(model, task, ranks, settings.precision, listener)
        self.model = model
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        self.device = next(model.parameters()).device
        self.checkpoints = Checkpoints(folder.checkpoints, keep=settings.average, film=settings.film, run=identity)
        self.state, self._saved = TrainState(), 0

    def resume(self) -> bool:
        """Goes back to the newest whole checkpoint; False if there is none."""
        found = self.ranks.from_first(self._newest)
        if found is None:
            return False
        self.state, self._saved = found, found.step
        self.held.load(*(self.checkpoints.load(found.step)[1:] if self.ranks.first else ({}, {})))
        return True

    def _newest(self) -> TrainState | None:
        damaged: dict[int, str] = {}
        for step in reversed(self.checkpoints.steps()):
            if not (wrong := self.checkpoints.damage(step)):
                for other, why in damaged.items():
                    note = Message("the checkpoint of step {step} is damaged ({why}); skipped", step=other, why=why)
                    self.tell(Note(note))
                return self.checkpoints.load(step)[0]
            damaged[step] = wrong
        if damaged:  # to begin anew would write over the best weights so far
            raise UserError(
                "Every checkpoint of this run is damaged.",
                where=", ".join(f"{self.checkpoints.path(step)}: {wrong}" for step, wrong in damaged.items()),
                hint=f"copy them again, begin a new run with --from {self.folder.path}, or delete "
                f"{self.folder.checkpoints} to begin this one anew",
            )
        return None

    def train(self) -> str:
        """Runs to the end and returns the reason for it. Ctrl-C ends it too, after saving."""
        state, s = self.state, self.settings
        began, batches, meter = time.perf_counter() - state.seconds, self._batches(), _Meter()
        with Interrupt() as interrupt:
            self.tell(Started(state.step, s.steps, self.parameters, str(self.device), self.ranks.size, self._left()))
            asked = "time" if self._is_late() else ""
            while not (reason := self._reason_to_stop(asked or self._asked_alone(interrupt))):
                state.step += 1
                measured, asked = self._step(batches, interrupt)
                meter.add(*measured)
                if state.step % PROGRESS_EVERY == 0:
                    self.tell(meter.read(state))
                if state.step % s.validate_every == 0 or state.step == s.steps:
                    self._validate()
                    meter.restart()
                state.seconds = time.perf_counter() - began
                if state.step % s.checkpoint_every == 0 or self._improved_now() or state.step == s.steps:
                    self._save()
        if reason == "time" and state.step and not self._improved_now():
            self._validate()  # the clock does not ask when the last one was, and these weights may be the best
            self._save()
        elif self._saved != state.step:
            self._save()
        self.tell(Finished(state.step, reason, state.seconds))
        return reason

    def _step(self, batches: Iterator[Any], interrupt: Interrupt) -> tuple[tuple[float, int, float, float], str]:
        """One update: gradients of `accumulate` batches, summed, then divided once by the true count.

        Returns loss, count, learning rate and gradient norm, and why any of the processes wants to stop.
        """
        state, s = self.state, self.settings
        drawn = [next(batches) for _ in range(s.accumulate)]
        mine = self.held.gradients(drawn, seed=_seed(s.seed, state.step, self.ranks.number))
        total, count, interrupts, late = self.ranks.add_up([*mine, interrupt.requested, self._is_late()])
        state.position = drawn[-1].next
        lr = learning_rate(state.step, s)
        norm = self.held.update(lr=lr, count=int(count), clip=s.clip) if math.isfinite(total) else math.nan
        if math.isfinite(norm):
            state.skipped_in_a_row = 0
        else:
            self._skip(drawn)
            total, count, norm = 0.0, 0, 0.0
        return (total, int(count), lr, norm), "interrupted" if interrupts else "time" if late else ""

    def _skip(self, batches: list[Any]) -> None:
        self.held.forget()
        state = self.state
        state.skipped, state.skipped_in_a_row = state.skipped + 1, state.skipped_in_a_row + 1
        lines = [where for batch in batches for where in self.task.where(batch)]
        self.tell(Skipped(state.step, lines))
        if state.skipped_in_a_row == SKIPPED_AT_MOST:
            raise UserError(
                f"The numbers ran away: at step {state.step} the gradient was not finite for the "
                f"{SKIPPED_AT_MOST}th time in a row.",
                where=f"train.lr = {self.settings.lr}",
                hint="begin again with a lower train.lr or a longer train.warmup",
            )

    def evaluate(self, split: str = VALID, *, final: bool = False) -> dict[str, float]:
        """Scores of the present weights on a held-out set."""
        shares = self.held.evaluate(
            lambda model, number, of: self.task.judge(model, number, of, split=split, final=final)
        )
        return self.ranks.from_first(lambda: self.task.scores(shares, split=split))

    def _validate(self) -> None:
        state, began = self.state, time.perf_counter()
        scores = self.evaluate()
        new = Validation(state.step, scores[self.task.metric], scores["loss"])
        better = not state.best or new.rank > state.best[0].rank
        state.best = sorted([*state.best, new], key=lambda v: v.rank, reverse=True)[: self.settings.average]
        state.without_better = 0 if better else state.without_better + 1
        if better:
            self.save_model()
        self.tell(Validated(state.step, scores, better, time.perf_counter() - began))

    def _improved_now(self) -> bool:
        """Whether the validation of this very step is among the best: its weights are wanted for averaging."""
        return any(validation.step == self.state.step for validation in self.state.best)

    def save_model(self) -> None:
        """The present weights become the run's."""
        weights = self.held.weights()
        self.held.at_first(lambda: save_weights(self.folder.model, weights))

    def _save(self) -> None:
        weights, moments = self.held.weights(), self.held.moments()
        path = self.held.at_first(lambda: self.checkpoints.save(self.state, weights, moments))
        if self.ranks.first:
            self.tell(Saved(self.state.step, str(path)))
        self._saved = self.state.step

    def _batches(self) -> Iterator[Any]:
        return self.task.batches(self.settings.seed, self.state.position)

    def _reason_to_stop(self, asked: str) -> str:
        if asked == "interrupted":
            return asked
        if self.state.step >= self.settings.steps:
            return "steps"
        if self.settings.patience and self.state.without_better >= self.settings.patience:
            return "patience"
        return asked

    def _asked_alone(self, interrupt: Interrupt) -> str:
        """Why to stop at once. Of several processes each has to go as far as the others: they agree in a step."""
        if self.ranks.size > 1:
            return ""
        return "interrupted" if interrupt.requested else "time" if self._is_late() else ""

    def _is_late(self) -> bool:
        return self._left() == 0

    def _left(self) -> float | None:
        """Seconds until the time is up, all lives of the run counted; None where there is no limit."""
        minutes = self.settings.minutes
        return None if minutes is None else max(0.0, 60 * minutes - self.state.seconds)


def _seed(seed: int, step: int, rank: int) -> int:
    """What chance is drawn from at a step (dropout): nothing need be kept of it to go on there."""
    return int.from_bytes(hashlib.blake2b(f"{seed} {step} {rank}".encode(), digest_size=7).digest())


class _Meter:
    """Means over the steps since the last reading."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.began, self.loss, self.tokens, self.lr, self.norm, self.steps = (
            time.perf_counter(),
            0.0,
            0,
            0.0,
            0.0,
            0,
        )

    def add(self, loss: float, tokens: int, lr: float, norm: float) -> None:
        self.loss, self.tokens = self.loss + loss, self.tokens + tokens
        self.lr, self.norm, self.steps = lr, self.norm + norm, self.steps + 1

    def read(self, state: TrainState) -> Event:
        seconds = time.perf_counter() - self.began
        event = Progress(
            step=state.step,
            epoch=state.position.epoch,
            loss=self.loss / max(1, self.tokens),
            lr=self.lr,
            gradient_norm=self.norm / max(1, self.steps),
            tokens_per_second=self.tokens / seconds,
        )
        self.restart()
        return event
