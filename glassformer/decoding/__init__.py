"""Decoding algorithms. They use only the `Generator` interface, never a specific model.

This module does not import PyTorch, so that the native engine can be used without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from glassformer.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

MAX_NEW_TOKENS = 500  # default length of the output of a language model
MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-4, 1e4  # beyond these, scaled logits overflow fp32


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
Constraint = Callable[["Tensor", "Tensor"], None]


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


def not_finite() -> UserError:
    """Return the error of logits from which no token can be sampled."""
    return UserError(
        "The model's output is not finite: there is no distribution to sample from.",
        where="logits",
        hint="the weights are damaged or training diverged: copy the run again, or train with a lower train.lr",
    )


def length_penalty(length: int, alpha: float) -> float:
    """Return ((5 + length) / 6)^α of Wu et al. (2016), by which a log-probability is divided (§6.1: α = 0.6)."""
    return ((5 + length) / 6) ** alpha


def truncate_left(tokens_T: Any, max_length: int) -> Any:
    """Drop tokens (a list or a tensor) from the left until between half of `max_length` and all of it remain.

    Whole halves are dropped, so that a position keeps its meaning where it has one, as in music.
    """
    half = max_length - max_length // 2
    excess = len(tokens_T) - max_length
    return tokens_T[-(-excess // half) * half :]


@dataclass(frozen=True)
class Sampling:
    """How tokens are sampled: `Sampling(temperature=0.8, top_k=40)`.

    Attributes:
        temperature: divides the logits.
        top_k: sample from this many of the most probable tokens; 0 for all.
        top_p: sample from the most probable tokens that together have this probability.
        seed: seed of the random numbers.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        if not MIN_TEMPERATURE <= self.temperature <= MAX_TEMPERATURE:
            hint = f"use a value above 0, such as 0.8: from {MIN_TEMPERATURE:g} to {MAX_TEMPERATURE:g}"
            raise UserError(f"The temperature {self.temperature} is out of range.", where="--temperature", hint=hint)
        if self.top_k < 0:
            raise UserError(f"top-k={self.top_k} is out of range.", where="--top-k", hint="use 0 (all tokens) or more")
        if not 0 < self.top_p <= 1:
            raise UserError(
                f"top-p={self.top_p} is out of range.", where="--top-p", hint="use a value above 0 and at most 1"
            )
