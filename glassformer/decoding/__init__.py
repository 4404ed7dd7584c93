"""Searches. They know no model: only what every generator offers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from torch import Tensor


class State(Protocol):
    def select(self, rows: Tensor) -> Self: ...


class Generator(Protocol):
    """`encode` (where there is a source), `start`, `step`: all that a search needs.

    States are values: `step` and `select` return a new state and leave the one they were given as it was.
    """

    @property
    def max_positions(self) -> int | None:
        """Tokens that it can be stepped with; None where there is no end."""

    def encode(self, source_BS: Tensor) -> Any: ...

    def start(self, memory: Any, copies: int = 1) -> Any: ...

    def step(self, tokens_B: Tensor, state: Any) -> tuple[Tensor, Any]: ...


@runtime_checkable
class Reader(Protocol):
    """A generator that takes many steps in one pass, as a prompt asks for."""

    def read(self, tokens_NT: Tensor, state: Any) -> tuple[Tensor, Any]: ...


# Given the tokens so far (N×t, without <sos>) and the logits of the next (N×V), sets what is forbidden to −∞.
Constraint = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without `<eos>`, their log-probability with it, and the score it was ranked by."""

    tokens: list[int]
    log_probability: float
    score: float
    finished: bool  # ended by itself, not by the length limit
