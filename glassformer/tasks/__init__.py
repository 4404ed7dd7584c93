"""What there is to learn. The trainer knows a task only by this contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from torch import Tensor


class Task(Protocol):
    metric: str  # the entry of `scores` that decides which weights are best; higher is better

    def batches(self, seed: int, position: Any) -> Iterator[Any]:
        """Training batches without end, from a position on; each carries `.next`, the position after it."""

    def loss(self, model: Any, batch: Any) -> tuple[Tensor, int]:
        """The summed loss of a batch, and how many predictions it is the sum of."""

    def part(self, batch: Any, number: int, of: int) -> Any | None:
        """Every `of`-th row of a batch from `number` on, counted from 0; None where that is none."""

    def where(self, batch: Any) -> list[str]:
        """Where the data of a batch stands, for a person to look at it."""

    def judge(self, model: Any, number: int, of: int) -> Any:
        """What a model makes of its share of the held-out data; several processes each take one."""

    def scores(self, shares: list[Any]) -> dict[str, float]:
        """Scores from what was made of all shares, in their order; `loss` (mean) is among them."""
