"""The loop. It knows no model and no data: only the task."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from glassformer.errors import UserError, out_of_memory
from glassformer.run import RunFolder, put_weights, save_weights, weights_of
from glassformer.settings import TrainSettings
from glassformer.tasks import Task
from glassformer.training.checkpoint import Checkpoints, TrainState, Validation
from glassformer.training.events import Event, Finished, Listener, Note, Progress, Saved, Skipped, Started, Validated
from glassformer.training.optim import FlatAdam, learning_rate
from glassformer.training.signals import Interrupt

PROGRESS_EVERY = 10  # steps
SKIPPED_AT_MOST = 10  # steps in a row whose numbers are not finite


class Trainer:
    """Trains a model on a task, in a run folder, until the steps, the patience or the person ends it."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        settings: TrainSettings,
        folder: RunFolder,
        listener: Listener,
        *,
        identity: str = "",
    ) -> None:
        self.model, self.task, self.settings = model, task, settings
        self.folder, self.tell = folder, listener
        self.optimizer = FlatAdam(model)
        self.checkpoints = Checkpoints(folder.checkpoints, keep=settings.average, run=identity)
        self.state, self._saved = TrainState(), 0

    def resume(self) -> bool:
        """Goes back to the newest whole checkpoint; False if there is none."""
        for step in reversed(self.checkpoints.steps()):
            if wrong := self.checkpoints.damage(step):
                self.tell(Note(f"the checkpoint of step {step} is damaged ({wrong}) and is left out"))
                continue
            self.state, weights, optimizer = self.checkpoints.load(step)
            put_weights(self.model, weights, where=self.checkpoints.path(step))
            self.optimizer.load(optimizer)
            self._saved = step
            return True
        return False

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
        if self._saved != state.step:
            self._save()
        self.tell(Finished(state.step, reason, state.seconds))
        return reason

    def _step(self, batches: Iterator[Any]) -> tuple[float, int, float, float]:
        """One update: gradients of `accumulate` batches, summed, then divided once by the true count."""
        self.model.train()
        drawn = [next(batches) for _ in range(self.settings.accumulate)]
        total, count = self._gradients(drawn)
        self.state.position = drawn[-1].next
        lr = learning_rate(self.state.step, peak=self.settings.lr, warmup=self.settings.warmup)
        if math.isfinite(total):
            norm = self.optimizer.update(lr=lr, count=count, clip=self.settings.clip)
            if math.isfinite(norm):
                self.state.skipped_in_a_row = 0
                return total, count, lr, norm
        self._skip(drawn)
        return 0.0, 0, lr, 0.0

    def _gradients(self, batches: list[Any]) -> tuple[float, int]:
        """Loss and count of these batches, whose gradients are added up. What does not fit in memory is cut in two."""
        random = torch.get_rng_state()
        while True:
            total, count = 0.0, 0
            try:
                for batch in batches:
                    with self._precision():
                        loss, n = self.task.loss(self.model, batch)
                    loss.backward()
                    total, count = total + float(loss.detach()), count + n
                return total, count
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
            smaller = [part for batch in batches for part in self.task.split(batch)]
            if len(smaller) == len(batches):
                raise UserError(
                    f"There is not enough memory for a single pair, at step {self.state.step}.",
                    where=", ".join(where for batch in batches for where in self.task.where(batch)[:3]),
                    fix="take a smaller model, or leave long lines out by data.max_words",
                )
            self.tell(Note(f"step {self.state.step}: not enough memory; its batch is cut into {len(smaller)}"))
            batches = smaller
            self.optimizer.forget()
            torch.set_rng_state(random)

    def _skip(self, batches: list[Any]) -> None:
        self.optimizer.forget()
        state = self.state
        state.skipped, state.skipped_in_a_row = state.skipped + 1, state.skipped_in_a_row + 1
        lines = [where for batch in batches for where in self.task.where(batch)]
        self.tell(Skipped(state.step, lines))
        if state.skipped_in_a_row == SKIPPED_AT_MOST:
            raise UserError(
                f"The numbers ran away: at step {state.step} the gradient was not finite for the "
                f"{SKIPPED_AT_MOST}th time in a row.",
                where=f"train.lr = {self.settings.lr}",
                fix="begin again with a lower train.lr or a longer train.warmup",
            )

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
        self._saved = self.state.step
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
