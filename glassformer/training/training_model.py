"""`TrainingModel`: the interface between the training loop and a model that is replicated or sharded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")


class TrainingModel(Protocol):
    """A model and its optimizer during training. All ranks call every method at the same time."""

    def backward(self, batches: list[Any], *, seed: int) -> tuple[float, int]:
        """Accumulate the gradients of this rank's part of the batches; return its summed loss and count."""

    def step(self, *, lr: float, count: int, clip: float) -> float:
        """Update the weights with the gradients of all ranks, divided by the total count; return the gradient norm.

        If the norm is not finite, the weights do not change.
        """

    def zero_grad(self) -> None:
        """Reset the accumulated gradients."""

    def weights(self) -> Mapping[str, Tensor]:
        """Return all weights by name but frozen ones, to be read inside `run_on_rank0`."""

    def optimizer_state(self) -> Mapping[str, Tensor]:
        """Return the state of the optimizer by name, to be read inside `run_on_rank0`."""

    def run_on_rank0(self, work: Callable[[], T]) -> T | None:
        """Call `work` on rank 0, where it may read `weights` and `optimizer_state`; return None on other ranks.

        An error on rank 0 ends all ranks.
        """

    def load(
        self,
        weights: Mapping[str, Tensor],
        optimizer_state: Mapping[str, Tensor] | None = None,
        *,
        partial: bool = False,
    ) -> None:
        """Load the weights, and the optimizer state if given, from rank 0; the arguments of other ranks are ignored.

        partial: weights that are not given keep their values.
        """

    def evaluate(self, evaluate_shard: Callable[[nn.Module, int, int], T]) -> list[T]:
        """Call `evaluate_shard(model, number, of)` for every shard of a held-out set; return the results on rank 0."""


def autocast(model: nn.Module, precision: str, *, cache: bool = True) -> contextlib.AbstractContextManager[Any]:
    """Compute in bf16 inside the block if that is the precision; weights, sums and moments stay fp32.

    cache: convert a weight that is used several times only once. Threads share this cache, and the first one that
        leaves the block clears it.
    """
    if precision == "bf16":
        return torch.autocast(next(model.parameters()).device.type, dtype=torch.bfloat16, cache_enabled=cache)
    return contextlib.nullcontext()
