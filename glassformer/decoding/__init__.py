"""Decoding algorithms. They use only the `Generator` interface, never a specific model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor


class Generator(Protocol):
    """A model that generates token by token: `encode` (if it has a source), `start`, `step`.

    States are values: `step` and `state.select(rows)` return a new state and leave the given one unchanged.
    """

    @property
    def max_positions(self) -> int | None:
        """The maximum number of steps; None if unlimited."""

    def encode(self, source_BS: Tensor) -> Any: ...

    def start(self, memory: Any, copies: int = 1) -> Any: ...

    def step(self, tokens_B: Tensor, state: Any) -> tuple[Tensor, Any]: ...


@runtime_checkable
class PromptReader(Protocol):
    """A generator that can process all tokens of a prompt in one pass."""

    def read(self, tokens_NT: Tensor, state: Any) -> tuple[Tensor, Any]: ...


# Given the tokens so far (N×T, without <sos>) and the next logits (N×V), set the logits of forbidden tokens to −∞.
Constraint = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True)
class Hypothesis:
    """One output sequence.

    Attributes:
        tokens: token ids without `<eos>`.
        log_probability: log-probability of the tokens, `<eos>` included.
        score: the length-normalized log-probability by which hypotheses are ranked.
        finished: whether the output ended with `<eos>`, not at the length limit.
    """

    tokens: list[int]
    log_probability: float
    score: float
    finished: bool
