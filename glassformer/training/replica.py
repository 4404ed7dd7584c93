"""Replicas of a model for data parallelism among the threads of one process."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from glassformer.models.ablations import BatchNorm
from glassformer.nn.dropout import Dropout
from glassformer.training.optim import FlatOptimizer

MIN_TOKENS = 512  # per replica and batch; below, matrix products lose more than the threads gain
MAX_REPLICAS = 8  # each needs 4 bytes per parameter for its gradient


class Replica:
    """A copy of a model that shares its weights, but has a gradient and random numbers (dropout) of its own.

    The gradient is one vector, laid out as that of the optimizer.
    """

    def __init__(self, model: nn.Module, optimizer: FlatOptimizer) -> None:
        self.gradient = torch.zeros_like(optimizer.gradient)
        self._generator = torch.Generator()
        self.model = _share_weights(model, dict(zip(optimizer.names, optimizer.views(self.gradient), strict=True)))
        self.model.train()
        for module in self.model.modules():
            if isinstance(module, Dropout):
                module.generator = self._generator

    def seed(self, seed: int) -> None:
        """Seed the random numbers of this replica."""
        self._generator.manual_seed(seed)

    def move_gradient_to(self, total: Tensor) -> None:
        """Add the gradient to `total` and reset it."""
        total.add_(self.gradient)
        self.gradient.zero_()


def replica_count(model: nn.Module, *, threads: int, batch_tokens: int) -> int:
    """Return the number of parts, one per replica, into which the rows of a batch are divided.

    Batch normalization needs the statistics of the whole batch, so there is one part.
    """
    is_on_cpu = next(model.parameters()).device.type == "cpu"
    if not is_on_cpu or any(isinstance(module, BatchNorm) for module in model.modules()):
        return 1
    return max(1, min(threads, batch_tokens // MIN_TOKENS, MAX_REPLICAS))


def _share_weights(model: nn.Module, gradients: dict[str, Tensor]) -> nn.Module:
    """Copy a model: the copy has the same weights and buffers in memory, and the given gradients, by name."""
    copies: dict[int, Tensor] = {id(buffer): buffer for buffer in model.buffers()}
    for name, parameter in model.named_parameters():
        copies[id(parameter)] = shared = nn.Parameter(parameter.data, requires_grad=parameter.requires_grad)
        shared.grad = gradients.get(name)
    return copy.deepcopy(model, copies)
