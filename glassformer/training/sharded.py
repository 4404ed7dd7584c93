"""Fully sharded data parallel training (PyTorch's FSDP2), for a model that does not fit one process.

Every rank holds its rows of each parameter, of its gradient and of its Adam moments. The matrix of a Transformer layer
is gathered when it is used and released afterwards. No rank ever holds the whole model: weights are drawn, loaded,
saved and evaluated one parameter at a time. Checkpoints have the format of data-parallel training, so either kind of
run can resume the other's, with any number of ranks.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from glassformer import machine
from glassformer.errors import UserError, out_of_memory
from glassformer.inference.run import DeferredTensors, check_weights
from glassformer.tasks import Task
from glassformer.training.deferred_init import DeferredModel
from glassformer.training.distributed import ProcessGroup
from glassformer.training.optim import BETAS, EPSILON, MOMENTS, apply_weight_decay
from glassformer.training.training_model import autocast

T = TypeVar("T")

DONE, FAILED = -1, -2  # broadcast by rank 0 instead of the number of a tensor


class Sharded:
    """The `TrainingModel` of fully sharded training."""

    def __init__(
        self, deferred: DeferredModel, task: Task, group: ProcessGroup, precision: str, *, weight_decay: float = 0.0
    ) -> None:
        self.model, self.task, self.group, self.precision = deferred.model, task, group, precision
        self.weight_decay = weight_decay
        self.device = torch.device(machine.device())
        machine.return_large_blocks()  # gathered matrices are allocated and freed all the time
        self._evaluated = copy.deepcopy(self.model)  # still on the meta device
        _shard(loss := _Loss(self.model, task), self.device, group.world_size)
        self._loss = loss
        self._parameters = list(self.model.named_parameters())
        self._draw(deferred)
        self._adam = torch.optim.Adam(self.model.parameters(), betas=BETAS, eps=EPSILON)
        _read_from(self._evaluated, self._gather_weight, self.device)

    def _draw(self, deferred: DeferredModel) -> None:
        """Initialize this rank's shards. Every rank draws all values, one parameter at a time, and keeps its rows."""
        shards = {name: (_local(parameter), self._start(parameter)) for name, parameter in self._parameters}
        shards |= {name: (buffer, 0) for name, buffer in self.model.named_buffers()}
        for name, start, values in deferred.replay():
            _copy_overlap(*shards[name], values, start)

    def backward(self, batches: list[Any], *, seed: int) -> tuple[float, int]:
        """Run forward and backward on this rank's rows of each batch.

        A rank without rows runs one of the whole batch and discards it: every rank must take part in every gather.
        """
        self.model.train()
        torch.manual_seed(seed)
        total, count = 0.0, 0
        for batch in batches:
            part = self.task.shard_batch(batch, self.group.rank, self.group.world_size)
            try:
                with autocast(self.model, self.precision):
                    loss, n = self._loss(batch if part is None else part)
                (loss * 0 if part is None else loss).backward()
            except (MemoryError, RuntimeError) as error:
                if out_of_memory(error):
                    raise UserError(
                        "There is not enough memory for a batch, and train.shard_model cannot split it further.",
                        where="train.batch_tokens",
                        hint="halve train.batch_tokens and double train.accumulate, which keeps the tokens per step",
                    ) from error
                raise
            if part is not None:
                total, count = total + float(loss.detach()), count + n
        return total, count

    def step(self, *, lr: float, count: int, clip: float) -> float:
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        for gradient in gradients:
            gradient.div_(count)
        total_norm = torch.nn.utils.get_total_norm(gradients)
        norm = float(total_norm.full_tensor() if isinstance(total_norm, DTensor) else total_norm)
        if math.isfinite(norm):
            if clip and norm > clip:
                for gradient in gradients:
                    gradient.mul_(clip / norm)
            self._adam.param_groups[0]["lr"] = lr
            apply_weight_decay(self.model.parameters(), lr=lr, weight_decay=self.weight_decay)
            self._adam.step()
        self.zero_grad()
        return norm

    def zero_grad(self) -> None:
        self._adam.zero_grad()

    def weights(self) -> Mapping[str, Tensor]:
        """Return all weights by name; inside `run_on_rank0`, each is gathered when it is read."""
        sharded = {name: (i, parameter.shape) for i, (name, parameter) in enumerate(self._parameters)}
        return _Gathered(sharded, self._mean_buffers(), self._gather)

    def optimizer_state(self) -> Mapping[str, Tensor]:
        """Return the state of the optimizer by name, to be read like `weights`."""
        if not self._adam.state:
            return {}
        updates = self._adam.state[self._parameters[0][1]]["step"]
        named = [(f"{key}.{name}", parameter.shape) for key in MOMENTS for name, parameter in self._parameters]
        sharded = {name: (len(self._parameters) + i, shape) for i, (name, shape) in enumerate(named)}
        return _Gathered(sharded, {"updates": updates.clone().reshape(1)}, self._gather)

    def run_on_rank0(self, work: Callable[[], T]) -> T | None:
        """Run `work` on rank 0 while the others send their rows of every tensor that it reads."""
        if not self.group.is_rank0:
            while (number := self._announce(DONE)) >= 0:
                self._gather_rows(number)
            if number == FAILED:  # rank 0 reports the error
                raise SystemExit(2)
            return None
        outcome = FAILED
        try:
            made = work()
            outcome = DONE
        finally:
            self._announce(outcome)
        return made

    def evaluate(self, evaluate_shard: Callable[[nn.Module, int, int], T]) -> list[T]:
        """Evaluate the whole set on rank 0, which gathers each matrix when it is used.

        Decoding takes as many steps as its output is long, so ranks with data of their own would not gather the same
        matrices at the same time.
        """
        buffers = self._mean_buffers()

        def work() -> T:
            for name, buffer in self._evaluated.named_buffers():
                buffer.copy_(buffers[name])
            for name, parameter in self._evaluated.named_parameters():
                if parameter.numel():
                    parameter.detach().copy_(self._gather_weight(name))
            return evaluate_shard(self._evaluated.eval(), 0, 1)

        made = self.run_on_rank0(work)
        return [made] if made is not None else []

    def load(
        self,
        weights: Mapping[str, Tensor],
        optimizer_state: Mapping[str, Tensor] | None = None,
        *,
        partial: bool = False,
    ) -> None:
        saved = optimizer_state or {}
        self.group.run_on_rank0(lambda: check_weights(self.model, weights, partial=partial))
        given = self.group.broadcast_from_rank0(lambda: set(weights))
        updates = self.group.broadcast_from_rank0(lambda: float(saved["updates"]) if saved else None)
        for name, parameter in self._parameters:
            if name in given:
                self._scatter_rows(weights.get(name), parameter)
            if updates is not None:
                state = {key: torch.zeros_like(parameter) for key in MOMENTS}
                for key, moment in state.items():
                    self._scatter_rows(saved.get(f"{key}.{name}"), moment)
                self._adam.state[parameter] = {"step": torch.tensor(updates), **state}
        for name, buffer in self.model.named_buffers():
            if name in given:
                if self.group.is_rank0:
                    buffer.copy_(weights[name])
                self.group.broadcast_([buffer])

    def _mean_buffers(self) -> dict[str, Tensor]:
        """Average the running statistics, which each rank computed from its own batches, and return them."""
        self.group.mean_(self.model.buffers())
        return dict(self.model.named_buffers())

    def _announce(self, number: int) -> int:
        """Broadcast what rank 0 requests: the number of a tensor, `DONE` or `FAILED`."""
        box = torch.tensor(number, device=self.device)
        self.group.broadcast_([box])
        return int(box)

    def _gather_weight(self, name: str) -> Tensor:
        return self._gather(next(i for i, (other, _) in enumerate(self._parameters) if other == name))

    def _gather(self, number: int) -> Tensor:
        """Return a whole tensor on rank 0. The others must be inside `run_on_rank0`."""
        self._announce(number)
        return self._gather_rows(number)

    def _gather_rows(self, number: int) -> Tensor:
        kind, i = divmod(number, len(self._parameters))
        parameter = self._parameters[i][1]
        sharded = parameter if kind == 0 else self._adam.state[parameter][MOMENTS[kind - 1]]
        mine = _local(sharded)
        if not self.group.is_rank0:
            self.group.send(mine, dst=0)
            return mine
        whole = torch.empty(sharded.shape, device=mine.device)
        for rank, rows in enumerate(self._rows(whole)):
            if rank == 0:
                rows.copy_(mine)
            else:
                self.group.recv_(rows, src=rank)
        return whole

    def _scatter_rows(self, whole: Tensor | None, into: Tensor) -> None:
        """Give each rank its rows of rank 0's tensor."""
        if not self.group.is_rank0:
            self.group.recv_(_local(into), src=0)
            return
        assert whole is not None
        for rank, rows in enumerate(self._rows(whole)):
            if rank == 0:
                _local(into).copy_(rows)
            else:
                self.group.send(rows.to(self.device), dst=rank)

    def _rows(self, whole: Tensor) -> list[Tensor]:
        """Return the rows of each rank as FSDP divides them; the last ranks may have none."""
        chunks = list(whole.chunk(self.group.world_size))
        return chunks + [whole[:0]] * (self.group.world_size - len(chunks))

    def _start(self, parameter: Tensor) -> int:
        """Return the flat index of this rank's first element."""
        before = self._rows(torch.empty(parameter.shape, device="meta"))[: self.group.rank]
        return sum(rows.numel() for rows in before)


class _Loss(nn.Module):
    """The model and its loss as one module, so that FSDP sees the whole forward pass."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, batch: Any) -> tuple[Tensor, int]:
        return self.task.loss(self.model, batch)


class _Gathered(DeferredTensors):
    """Tensors by name; the sharded ones are gathered each time they are read."""

    def __init__(
        self, sharded: dict[str, tuple[int, torch.Size]], local: dict[str, Tensor], gather: Callable[[int], Tensor]
    ) -> None:
        self._numbers = {name: number for name, (number, _) in sharded.items()}
        self._local, self._gather = local, gather
        self.shapes = {name: shape for name, (_, shape) in sharded.items()} | {n: t.shape for n, t in local.items()}

    def __getitem__(self, name: str) -> Tensor:
        return self._local[name] if name in self._local else self._gather(self._numbers[name])


def _shard(loss: _Loss, device: torch.device, world_size: int) -> None:
    """Shard a model that is on the meta device, and allocate this rank's shards on the device."""
    mesh = init_device_mesh(device.type, (world_size,))
    for module in _layer_matrices(loss.model):
        fully_shard(module, mesh=mesh)
    fully_shard(loss, mesh=mesh)
    for module in loss.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)  # `step` divides the sum by the count of all ranks
            module.set_force_sum_reduction_for_comms(True)  # gloo has no scaled sum
    # FSDP2 warns that outputs of its modules must not be modified in place; no model does so in training.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
    loss.to_empty(device=device)


def _layer_matrices(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules inside a layer that own a matrix; FSDP gathers each of them separately.

    All other parameters (embeddings, normalization, recurrent cells) form one group, gathered for the whole step:
    they are also used outside of their module's forward pass, where FSDP has no hook.
    """
    for layers in model.modules():
        if isinstance(layers, nn.ModuleList):
            for module in layers.modules():
                if any(parameter.dim() > 1 for parameter in module.parameters(recurse=False)):
                    yield module


def _read_from(model: nn.Module, gather: Callable[[str], Tensor], device: torch.device) -> None:
    """Turn a model on the meta device into one that gathers each of its matrices when it is used.

    Vectors are small and used often: they are allocated here and copied before an evaluation.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for module in model.modules():
        matrices = {}
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter.dim() > 1:
                matrices[name] = _gathered_attribute(gather, names[id(parameter)])
            kept = torch.empty(0 if name in matrices else parameter.shape, device=device)
            module.register_parameter(name, nn.Parameter(kept, requires_grad=False))
        for name, buffer in list(module.named_buffers(recurse=False)):
            module.register_buffer(name, torch.empty(buffer.shape, device=device))
        if matrices:
            module.__class__ = type(f"Gathered{type(module).__name__}", (type(module),), matrices)


def _gathered_attribute(gather: Callable[[str], Tensor], name: str) -> property:
    return property(lambda module: gather(name))


def _copy_overlap(shard: Tensor, shard_start: int, values: Tensor, start: int) -> None:
    """Copy the part of the values that lies in a shard; both come with their flat start index."""
    first = max(start, shard_start)
    last = min(start + values.numel(), shard_start + shard.numel())
    if first < last:
        shard.view(-1)[first - shard_start : last - shard_start] = values.view(-1)[first - start : last - start]


def _local(tensor: Tensor) -> Tensor:
    assert isinstance(tensor, DTensor)
    return tensor.to_local().detach()
