"""What there is to learn. The trainer knows a task only by this contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from torch import Tensor


class Task(Protocol):
    metric: str  # the entry of `evaluate` that decides which weights are best; higher is better

    def batches(self, seed: int, position: Any) -> Iterator[Any]:
        """Training batches without end, from a position on; each carries `.next`, the position after it."""

    def loss(self, model: Any, batch: Any) -> tuple[Tensor, int]:
        """The summed loss of a batch, and how many predictions it is the sum of."""

    def split(self, batch: Any) -> list[Any]:
        """The batch in two, where it is too large for the memory; as it is, where it cannot be cut."""

    def where(self, batch: Any) -> list[str]:
        """Where the data of a batch stands, for a person to look at it."""

    def evaluate(self, model: Any) -> dict[str, float]:
        """Scores on the held-out data, `loss` (mean) among them."""
