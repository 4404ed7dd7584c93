"""A model that does not fit one process: each holds a share of weights, gradients and moments (FSDP).

A matrix comes together when it is at work, and is parted again behind it. Checkpoints are the same as those of a
run with whole copies, so either can go on with the other's, in any number of processes.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from glassformer.errors import UserError, out_of_memory
from glassformer.run import put_weights, weights_of
from glassformer.tasks import Task
from glassformer.training.optim import BETAS, EPSILON, MOMENTS
from glassformer.training.precision import autocast
from glassformer.training.ranks import Ranks


class Sharded:
    def __init__(self, model: nn.Module, task: Task, ranks: Ranks, precision: str) -> None:
        self.model, self.task, self.ranks, self.precision = model, task, ranks, precision
        device = next(model.parameters()).device
        self._plain = copy.deepcopy(model).cpu()  # without gradients and moments; it evaluates
        self._mesh = init_device_mesh(device.type, (ranks.size,))
        for part in _matrices(model):
            fully_shard(part, mesh=self._mesh)
        self._loss = _Loss(model, task)
        fully_shard(self._loss, mesh=self._mesh)
        for part in self._loss.modules():
            if isinstance(part, FSDPModule):
                part.set_gradient_divide_factor(1.0)  # sums, divided once by the count of all
                part.set_force_sum_reduction_for_comms(True)  # gloo knows no scaled sums
        # It warns of changes in place to what a part gives out; nothing of ours does that in training.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
        self._adam = torch.optim.Adam(model.parameters(), betas=BETAS, eps=EPSILON)
        self.load(weights_of(self._plain))

    def gradients(self, batches: list[Any], *, seed: int) -> tuple[float, int]:
        """Every process goes through the model as often as the others, also where there are no rows left for it."""
        self.model.train()
        self._plain.cpu()  # away from the GPU after an evaluation: whole, it may not fit beside what training needs
        torch.manual_seed(seed)
        total, count = 0.0, 0
        for batch in batches:
            part = self.task.part(batch, self.ranks.number, self.ranks.size)
            try:
                with autocast(self.model, self.precision):
                    loss, n = self._loss(batch if part is None else part)
                (loss * 0 if part is None else loss).backward()
            except (MemoryError, RuntimeError) as error:
                if out_of_memory(error):
                    raise UserError(
                        "A batch does not fit the memory, and with train.shard_model it cannot be cut.",
                        where="train.batch_tokens",
                        fix="take half as many, and twice the train.accumulate: a step sees as much text",
                    ) from error
                raise
            if part is not None:
                total, count = total + float(loss.detach()), count + n
        return total, count

    def update(self, *, lr: float, count: int, clip: float) -> float:
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        for gradient in gradients:
            gradient.div_(count)
        norm = float(_whole(torch.nn.utils.get_total_norm(gradients)))
        if math.isfinite(norm):
            if clip and norm > clip:
                for gradient in gradients:
                    gradient.mul_(clip / norm)
            self._adam.param_groups[0]["lr"] = lr
            self._adam.step()
        self.forget()
        return norm

    def forget(self) -> None:
        self._adam.zero_grad()

    def weights(self) -> dict[str, Tensor]:
        whole = {name: _whole(parameter.detach()) for name, parameter in self.model.named_parameters()}
        counted = dict(self.model.named_buffers())  # whole in every process, by its own part of the batches
        for buffer in counted.values():
            self.ranks.add_up_(buffer)
            buffer.div_(self.ranks.size)
        return whole | counted

    def moments(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for name, parameter in self.model.named_parameters():
            if state := self._adam.state.get(parameter):
                found["updates"] = state["step"].clone().reshape(1)
                found |= {f"{key}.{name}": _whole(state[key]) for key in MOMENTS}
        return found

    def load(self, weights: dict[str, Tensor], moments: dict[str, Tensor] | None = None) -> None:
        moments = moments or {}
        updates = self.ranks.from_first(lambda: float(moments["updates"]) if moments else None)
        for name, parameter in self.model.named_parameters():
            parameter.detach().copy_(self._share(weights.get(name), parameter))
            if updates is not None:
                state = {key: self._share(moments.get(f"{key}.{name}"), parameter) for key in MOMENTS}
                self._adam.state[parameter] = {"step": torch.tensor(updates), **state}
        for name, buffer in self.model.named_buffers():
            if self.ranks.first:
                buffer.copy_(weights[name])
            self.ranks.spread_([buffer])

    def to_judge(self) -> nn.Module:
        """Whole weights, in every process, while it evaluates."""
        put_weights(self._plain, self.weights())
        return self._plain.to(self._mesh.device_type).eval()

    def _share(self, whole: Tensor | None, like: nn.Parameter) -> DTensor:
        """This process's share of the first one's tensor."""
        assert isinstance(like, DTensor)
        if whole is None or not self.ranks.first:
            whole = torch.empty(like.shape)
        whole = whole.to(like.device)
        self.ranks.spread_([whole])
        return distribute_tensor(whole, self._mesh, like.placements, src_data_rank=None)


class _Loss(nn.Module):
    """All that a step computes, so that its beginning and end are those of one forward pass."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, batch: Any) -> tuple[Tensor, int]:
        return self.task.loss(self.model, batch)


def _matrices(model: nn.Module) -> Iterator[nn.Module]:
    """The parts of the layers that own a matrix. What is left (embeddings, norms) is together for the whole step."""
    for layers in model.modules():
        if isinstance(layers, nn.ModuleList):
            for part in layers.modules():
                if any(parameter.dim() > 1 for parameter in part.parameters(recurse=False)):
                    yield part


def _whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
