"""The loop. It knows no model and no data: only the task."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from glassformer.errors import UserError
from glassformer.run import RunFolder, put_weights, save_weights, weights_of
from glassformer.settings import TrainSettings
from glassformer.tasks import Task
from glassformer.training.checkpoint import Checkpoints, TrainState, Validation
from glassformer.training.events import Event, Finished, Listener, Progress, Saved, Started, Validated
from glassformer.training.optim import FlatAdam, learning_rate
from glassformer.training.signals import Interrupt

PROGRESS_EVERY = 10  # steps


class Trainer:
    """Trains a model on a task, in a run folder, until the steps, the patience or the person ends it."""

    def __init__(
        self, model: nn.Module, task: Task, settings: TrainSettings, folder: RunFolder, listener: Listener
    ) -> None:
        self.model, self.task, self.settings = model, task, settings
        self.folder, self.tell = folder, listener
        self.optimizer = FlatAdam(model)
        self.checkpoints = Checkpoints(folder.checkpoints, keep=settings.average)
        self.state = TrainState()

    def resume(self) -> bool:
        """Goes back to the newest checkpoint; False if there is none."""
        step = self.checkpoints.newest()
        if step is None:
            return False
        self.state, weights, optimizer = self.checkpoints.load(step)
        put_weights(self.model, weights, where=self.checkpoints.path(step))
        self.optimizer.load(optimizer)
        return True

    def train(self) -> str:
        """Runs to the end and returns the reason for it. Ctrl-C ends it too, after saving."""
        state, s = self.state, self.settings
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        device = next(self.model.parameters()).device
        began, batches, meter = time.perf_counter() - state.seconds, self._batches(), _Meter()
        with Interrupt() as interrupt:
            self.tell(Started(state.step, s.steps, parameters, str(device)))
            while not (reason := self._reason_to_stop(interrupt)):
                state.step += 1
                meter.add(*self._step(batches))
                if state.step % PROGRESS_EVERY == 0:
                    self.tell(meter.read(state))
                if state.step % s.validate_every == 0 or state.step == s.steps:
                    self._validate()
                    meter.restart()
                state.seconds = time.perf_counter() - began
                if state.step % s.checkpoint_every == 0 or self._improved_now() or state.step == s.steps:
                    self._save()
        if self.checkpoints.newest() != state.step:
            self._save()
        self.tell(Finished(state.step, reason, state.seconds))
        return reason

    def _step(self, batches: Iterator[Any]) -> tuple[float, int, float, float]:
        """One update: gradients of `accumulate` batches, summed, then divided once by the true count."""
        self.model.train()
        total, count = 0.0, 0
        for _ in range(self.settings.accumulate):
            batch = next(batches)
            with self._precision():
                loss, n = self.task.loss(self.model, batch)
            loss.backward()
            total, count = total + float(loss.detach()), count + n
            self.state.position = batch.next
        lr = learning_rate(self.state.step, peak=self.settings.lr, warmup=self.settings.warmup)
        norm = self.optimizer.update(lr=lr, count=count, clip=self.settings.clip)
        if not math.isfinite(norm):
            raise UserError(
                f"The numbers ran away: at step {self.state.step} the gradient is no longer finite.",
                where=f"train.lr = {self.settings.lr}",
                fix="begin again with a lower train.lr or a longer train.warmup",
            )
        return total, count, lr, norm

    def _validate(self) -> None:
        state, began = self.state, time.perf_counter()
        self.model.eval()
        scores = self.task.evaluate(self.model)
        new = Validation(state.step, scores[self.task.metric], scores["loss"])
        better = not state.best or new.rank > state.best[0].rank
        state.best = sorted([*state.best, new], key=lambda v: v.rank, reverse=True)[: self.settings.average]
        state.without_better = 0 if better else state.without_better + 1
        if better:
            save_weights(self.folder.model, weights_of(self.model))
        self.tell(Validated(state.step, scores, better, time.perf_counter() - began))

    def _improved_now(self) -> bool:
        """Whether the validation of this very step is among the best: its weights are wanted for averaging."""
        return any(validation.step == self.state.step for validation in self.state.best)

    def _save(self) -> None:
        path = self.checkpoints.save(self.state, weights_of(self.model), self.optimizer.state())
        self.tell(Saved(self.state.step, str(path)))

    def _batches(self) -> Iterator[Any]:
        return self.task.batches(self.settings.seed, self.state.position)

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        if self.settings.precision == "bf16":
            return torch.autocast(next(self.model.parameters()).device.type, dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def _reason_to_stop(self, interrupt: Interrupt) -> str:
        if interrupt.requested:
            return "interrupted"
        if self.state.step >= self.settings.steps:
            return "steps"
        if self.settings.patience and self.state.without_better >= self.settings.patience:
            return "patience"
        return ""


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
