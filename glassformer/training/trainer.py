"""The training loop. It uses the model and the data only through the task."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from glassformer import machine
from glassformer.errors import Message, UserError
from glassformer.inference.run import save_weights
from glassformer.inference.run_folder import RunFolder
from glassformer.settings import TrainSettings
from glassformer.tasks import VALID, Task
from glassformer.training.checkpoint import Checkpoints, TrainState, Validation
from glassformer.training.deferred_init import DeferredModel
from glassformer.training.distributed import SINGLE_PROCESS, ProcessGroup
from glassformer.training.events import (
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
from glassformer.training.replicated import Replicated
from glassformer.training.signals import Interrupt
from glassformer.training.training_model import TrainingModel

PROGRESS_EVERY = 10  # steps
MAX_SKIPPED = 10  # consecutive steps without a finite gradient
MAX_WAITING = 0.2  # share of the time without a CPU; above, a note says so


class Trainer:
    """Trains a model on a task until a limit on steps, time or patience is reached, or until Ctrl-C.

    With several processes, every rank runs this loop; only rank 0 reads and writes the run folder.
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
        unit: str = "tokens",
        group: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        self.task, self.settings, self.group, self.unit = task, settings, group, unit
        self.folder, self.listener = folder, listener if group.is_rank0 else ignore
        self.training_model: TrainingModel
        if isinstance(model, DeferredModel):
            from glassformer.training.sharded import Sharded  # a slow import

            self.training_model = Sharded(model, task, group, settings.precision, weight_decay=settings.weight_decay)
            model = model.model
        elif settings.shard_model and group.world_size > 1:
            raise ValueError("train.shard_model needs a DeferredModel: this model is already in memory")
        else:
            self.training_model = Replicated(model, task, group, settings, listener)
        self.model = model
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        self.device = next(model.parameters()).device
        self.checkpoints = Checkpoints(
            folder.checkpoints, keep=settings.average, keep_all=settings.keep_all_checkpoints, run=identity
        )
        self.state, self._saved_step, self._noted_contention = TrainState(), 0, False

    def resume(self) -> bool:
        """Load the newest undamaged checkpoint; return False if there is none."""
        found = self.group.broadcast_from_rank0(self._newest_checkpoint)
        if found is None:
            return False
        self.state, self._saved_step = found, found.step
        self.training_model.load(*(self.checkpoints.load(found.step)[1:] if self.group.is_rank0 else ({}, {})))
        return True

    def _newest_checkpoint(self) -> TrainState | None:
        damaged: dict[int, str] = {}
        for step in reversed(self.checkpoints.steps()):
            if not (damage := self.checkpoints.damage(step)):
                for other, why in damaged.items():
                    note = Message(
                        "the checkpoint of step {step} is damaged ({why}) and is not used", step=other, why=why
                    )
                    self.listener(Note(note))
                return self.checkpoints.load(step)[0]
            damaged[step] = damage
        if damaged:  # a restart from step 0 would overwrite the best weights so far
            raise UserError(
                "Every checkpoint of this run is damaged.",
                where=", ".join(f"{self.checkpoints.path(step)}: {damage}" for step, damage in damaged.items()),
                hint=f"copy them again, start a new run with --from {self.folder.path}, or delete "
                f"{self.folder.checkpoints} to start this run from step 0",
            )
        return None

    def train(self) -> str:
        """Train until a stopping criterion is met; return it: "steps", "time", "patience" or "interrupted"."""
        state, s = self.state, self.settings
        began, meter = time.perf_counter() - state.seconds, _Meter()
        batches = self.task.batches(s.seed, state.position)
        with Interrupt() as interrupt:
            run = (self.parameters, str(self.device), self.group.world_size, self._seconds_left(), self.unit)
            self.listener(Started(state.step, s.steps, *run))
            request = "time" if self._elapsed() >= 1 else ""
            while not (reason := self._stop_reason(request or self._local_request(interrupt))):
                state.step += 1
                measured, request = self._step(batches, interrupt)
                meter.add(*measured)
                if state.step % PROGRESS_EVERY == 0:
                    self.listener(meter.read(state))
                    self._note_contention(meter)
                    meter = _Meter()
                if state.step % s.validate_every == 0 or state.step == s.steps:
                    self._validate()
                    meter = _Meter()
                state.seconds = time.perf_counter() - began
                if state.step % s.checkpoint_every == 0 or self._is_among_best() or state.step == s.steps:
                    self._save_checkpoint()
        if reason == "time" and state.step and not self._is_among_best():
            self._validate()  # the weights since the last validation may be the best
            self._save_checkpoint()
        elif self._saved_step != state.step:
            self._save_checkpoint()
        if reason != "interrupted" and state.best and state.best[0].is_nan:
            raise self._diverged(f"the validation loss is not a number (step {state.best[0].step})")
        self.listener(Finished(state.step, reason, state.seconds))
        return reason

    def _step(self, batches: Iterator[Any], interrupt: Interrupt) -> tuple[tuple[float, int, float, float], str]:
        """Make one update from `accumulate` batches: sum their gradients, then divide once by the total count.

        Return (loss, count, learning rate, gradient norm), and "interrupted" or "time" if a rank has to stop.
        """
        state, s = self.state, self.settings
        drawn = [next(batches) for _ in range(s.accumulate)]
        own = self.training_model.backward(drawn, seed=_step_seed(s.seed, state.step, self.group.rank))
        total, count, interrupts, elapsed = self.group.all_reduce([*own, interrupt.requested, self._elapsed()])
        elapsed /= self.group.world_size  # the clocks of the ranks differ; their mean is the same for all
        state.position = drawn[-1].next
        lr = learning_rate(state.step, s, elapsed)
        norm = math.nan
        if math.isfinite(total):
            norm = self.training_model.step(lr=lr, count=int(count), clip=s.clip)
        if math.isfinite(norm):
            state.skipped_in_a_row = 0
        else:
            self._skip(drawn)
            total, count, norm = 0.0, 0, 0.0
        return (total, int(count), lr, norm), "interrupted" if interrupts else "time" if elapsed >= 1 else ""

    def _note_contention(self, meter: _Meter) -> None:
        """Say once that other processes use the CPU, and what helps."""
        waiting, threads = meter.waiting_share(), torch.get_num_threads()
        if self._noted_contention or waiting < MAX_WAITING or threads == 1 or self.device.type != "cpu":
            return
        self._noted_contention = True
        note = Message(
            "other processes use the CPU: training waited for it {percent} % of the time; stop them, or train with "
            "OMP_NUM_THREADS={threads}",
            percent=round(100 * waiting),
            threads=threads - 1,
        )
        self.listener(Note(note))

    def _skip(self, batches: list[Any]) -> None:
        """Discard a step whose loss or gradient is not finite; raise a `UserError` after `MAX_SKIPPED` in a row."""
        self.training_model.zero_grad()
        state = self.state
        state.skipped, state.skipped_in_a_row = state.skipped + 1, state.skipped_in_a_row + 1
        self.listener(Skipped(state.step, [place for batch in batches for place in self.task.locations(batch)]))
        if state.skipped_in_a_row == MAX_SKIPPED:
            raise self._diverged(
                f"the gradient norm was not finite in {MAX_SKIPPED} consecutive steps (step {state.step})"
            )

    def _diverged(self, how: str) -> UserError:
        """Return the error for weights that became too large; it names the settings that can cause this."""
        s = self.settings
        causes = ["lr", *(["matrix_lr"] if s.optimizer == "muon" else [])]
        causes += [name for name in ("weight_decay", "consistency") if getattr(s, name)]
        return UserError(
            f"Training diverged: {how}.",
            where=", ".join(f"train.{name} = {getattr(s, name)}" for name in causes),
            hint=f"lower {' or '.join(f'train.{name}' for name in causes)} or raise train.warmup",
        )

    def evaluate(self, split: str = VALID, *, final: bool = False, task: Task | None = None) -> dict[str, float]:
        """Return the scores of the current weights on a held-out set, of this task or of another one."""
        task = task or self.task
        shards = self.training_model.evaluate(
            lambda model, number, of: task.evaluate_shard(model, number, of, split=split, final=final)
        )
        return self.group.broadcast_from_rank0(lambda: task.scores(shards, split=split))

    def _validate(self) -> None:
        state, began = self.state, time.perf_counter()
        scores = self.evaluate()
        new = Validation(state.step, scores[self.task.metric], scores["loss"])
        better = not state.best or new.rank > state.best[0].rank
        state.best = sorted([*state.best, new], key=lambda v: v.rank, reverse=True)[: self.settings.average]
        state.without_better = 0 if better else state.without_better + 1
        if better:
            self.save_model()
        self.listener(Validated(state.step, scores, better, time.perf_counter() - began))

    def _is_among_best(self) -> bool:
        """Return whether the validation of the current step is among the best, whose weights will be averaged."""
        return any(validation.step == self.state.step for validation in self.state.best)

    def save_model(self) -> None:
        """Write the current weights as the model of the run."""
        weights = self.training_model.weights()
        path = self.folder.adapter if self.settings.lora else self.folder.model
        self.training_model.run_on_rank0(lambda: save_weights(path, weights))

    def _save_checkpoint(self) -> None:
        weights, optimizer_state = self.training_model.weights(), self.training_model.optimizer_state()
        path = self.training_model.run_on_rank0(lambda: self.checkpoints.save(self.state, weights, optimizer_state))
        if self.group.is_rank0:
            self.listener(Saved(self.state.step, str(path)))
        self._saved_step = self.state.step

    def _stop_reason(self, request: str) -> str:
        if request == "interrupted":
            return request
        if self.state.step >= self.settings.steps:
            return "steps"
        if self.settings.patience and self.state.without_better >= self.settings.patience:
            return "patience"
        return request

    def _local_request(self, interrupt: Interrupt) -> str:
        """Return why a single process has to stop. Several ranks must stop at the same step: they agree in `_step`."""
        if self.group.world_size > 1:
            return ""
        return "interrupted" if interrupt.requested else "time" if self._elapsed() >= 1 else ""

    def _elapsed(self) -> float:
        """Return the share of `train.minutes` that has passed, counted over all resumes; 0 without a limit."""
        minutes = self.settings.minutes
        return 0.0 if minutes is None else self.state.seconds / (60 * minutes)

    def _seconds_left(self) -> float | None:
        minutes = self.settings.minutes
        return None if minutes is None else max(0.0, 60 * minutes - self.state.seconds)


def _step_seed(seed: int, step: int, rank: int) -> int:
    """Return the seed of the random numbers (dropout) of a step; so no generator state has to be saved."""
    return int.from_bytes(hashlib.blake2b(f"{seed} {step} {rank}".encode(), digest_size=7).digest())


@dataclass
class _Meter:
    """Sums over the steps since the last `Progress`."""

    loss: float = 0.0
    tokens: int = 0
    lr: float = 0.0
    norm: float = 0.0
    steps: int = 0
    began: float = field(default_factory=time.perf_counter)
    waited: float = field(default_factory=machine.seconds_waited_for_cpu)

    def waiting_share(self) -> float:
        """Return the share of the time in which the process was ready to run but had no CPU."""
        return (machine.seconds_waited_for_cpu() - self.waited) / (time.perf_counter() - self.began)

    def add(self, loss: float, tokens: int, lr: float, norm: float) -> None:
        self.loss, self.tokens = self.loss + loss, self.tokens + tokens
        self.lr, self.norm, self.steps = lr, self.norm + norm, self.steps + 1

    def read(self, state: TrainState) -> Progress:
        return Progress(
            step=state.step,
            epoch=state.position.epoch,
            loss=self.loss / max(1, self.tokens),
            lr=self.lr,
            gradient_norm=self.norm / max(1, self.steps),
            tokens_per_second=self.tokens / (time.perf_counter() - self.began),
        )
