"""Data-parallel training: every rank holds a full replica of the model.

Each rank computes the gradients of its part of a batch; the gradients are summed over all ranks, and every rank makes
the same update. On a CPU, the threads of a rank divide its part in the same way: each has a replica that shares the
weights, and the gradients are summed in the order of the replicas. So the result depends on the number of threads, but
not on which of them is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from glassformer.errors import Message, UserError, out_of_memory
from glassformer.inference.run import copy_weights, weights_of
from glassformer.nn.lora import merged
from glassformer.settings import TrainSettings
from glassformer.tasks import Task
from glassformer.training.distributed import ProcessGroup
from glassformer.training.events import Listener, Note
from glassformer.training.optim import FlatOptimizer
from glassformer.training.replica import Replica, replica_count
from glassformer.training.threads import SINGLE_THREAD, ThreadPool
from glassformer.training.training_model import autocast

T = TypeVar("T")


class Replicated:
    """The `TrainingModel` of data-parallel training; with one process, of ordinary training."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        group: ProcessGroup,
        settings: TrainSettings,
        listener: Listener,
    ) -> None:
        self.model, self.task, self.group, self.listener = model, task, group, listener
        self.precision = settings.precision
        threads = torch.get_num_threads()
        count = replica_count(model, threads=threads, batch_tokens=settings.batch_tokens // group.world_size)
        self.threads = ThreadPool(threads) if count > 1 else SINGLE_THREAD
        self.optimizer = FlatOptimizer(
            model,
            weight_decay=settings.weight_decay,
            matrix_lr_ratio=settings.matrix_lr / settings.lr if settings.optimizer == "muon" else None,
            muon_dtype=torch.bfloat16 if settings.precision == "bf16" else torch.float32,
            threads=self.threads,
        )
        self.replicas = [Replica(model, self.optimizer) for _ in range(1, count)]  # besides the model itself
        self.frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
        group.broadcast_([self.optimizer.weights.data])

    def backward(self, batches: list[Any], *, seed: int) -> tuple[float, int]:
        """Run forward and backward on this rank's part; if memory runs out, split its batches in two and retry."""
        self.model.train()
        batches = self._own_part(batches)
        while True:
            torch.manual_seed(seed)
            for number, replica in enumerate(self.replicas, start=1):
                replica.seed(seed + number)
            try:
                return self._backward(batches)
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
            batches = self._split(batches)
            self.zero_grad()

    def _own_part(self, batches: list[Any]) -> list[Any]:
        """Return whole batches if they divide evenly among the ranks, and rows of every batch otherwise."""
        rank, world_size = self.group.rank, self.group.world_size
        if len(batches) % world_size == 0:
            return batches[rank::world_size]
        return self._rows(batches, rank, world_size)

    def _rows(self, batches: list[Any], index: int, count: int) -> list[Any]:
        """Return rows `index`, `index + count`, … of every batch that has any."""
        parts = [self.task.shard_batch(batch, index, count) for batch in batches]
        return [part for part in parts if part is not None]

    def _backward(self, batches: list[Any]) -> tuple[float, int]:
        """Accumulate the gradients of the batches, with all replicas; return the summed loss and count."""
        if not self.replicas:
            return self._backward_of(self.model, batches)
        models = [self.model, *(replica.model for replica in self.replicas)]
        parts = [self._rows(batches, index, len(models)) for index in range(len(models))]
        sums = self.threads.run(
            [partial(self._backward_of, model, part) for model, part in zip(models, parts, strict=True)]
        )
        for replica in self.replicas:
            replica.move_gradient_to(self.optimizer.gradient)
        return sum(total for total, _ in sums), sum(count for _, count in sums)

    def _backward_of(self, model: nn.Module, batches: list[Any]) -> tuple[float, int]:
        total, count = 0.0, 0
        for batch in batches:
            with autocast(model, self.precision, cache=not self.replicas):
                loss, n = self.task.loss(model, batch)
            loss.backward()
            total, count = total + float(loss.detach()), count + n
        return total, count

    def _split(self, batches: list[Any]) -> list[Any]:
        halves = [self.task.shard_batch(batch, number, 2) for batch in batches for number in (0, 1)]
        smaller = [half for half in halves if half is not None]
        if len(smaller) == len(batches):
            raise UserError(
                "There is not enough memory for a batch of one example.",
                where=", ".join(location for batch in batches for location in self.task.locations(batch)[:3]),
                hint="choose a smaller model, or drop long lines with data.max_words",
            )
        self.listener(Note(Message("not enough memory for a step: its batch is split into {n}", n=len(smaller))))
        return smaller

    def step(self, *, lr: float, count: int, clip: float) -> float:
        self.group.all_reduce_(self.optimizer.gradient)
        return self.optimizer.step(lr=lr, count=count, clip=clip)

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()
        for replica in self.replicas:
            replica.gradient.zero_()

    def weights(self) -> Mapping[str, Tensor]:
        self.group.mean_(self.model.buffers())  # running statistics of batch normalization
        every = weights_of(self.model)
        return {name: every[name] for name in self.optimizer.names} if self.frozen else every

    def optimizer_state(self) -> Mapping[str, Tensor]:
        return self.optimizer.state()

    def run_on_rank0(self, work: Callable[[], T]) -> T | None:
        return self.group.run_on_rank0(work)

    def load(
        self,
        weights: Mapping[str, Tensor],
        optimizer_state: Mapping[str, Tensor] | None = None,
        *,
        partial: bool = False,
    ) -> None:
        partial = partial or bool(self.frozen)
        self.group.run_on_rank0(lambda: copy_weights(self.model, weights, partial=partial))
        self.group.broadcast_([self.optimizer.weights.data, *self.frozen, *self.model.buffers()])
        if self.group.broadcast_from_rank0(lambda: bool(optimizer_state)):
            if self.group.is_rank0:
                self.optimizer.load(optimizer_state or {})
            self.group.broadcast_(self.optimizer.state_tensors())

    def evaluate(self, evaluate_shard: Callable[[nn.Module, int, int], T]) -> list[T]:
        self.group.mean_(self.model.buffers())
        with merged(self.model.eval()) as model:
            return self.group.all_gather(evaluate_shard(model, self.group.rank, self.group.world_size))
