"""Jobs, results, models and errors that the service and its workers exchange.

Nothing heavy is imported here: the HTTP layer and the worker processes share this module.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Job:
    """One sentence (or prompt) to decode.

    Attributes:
        model: the name of the run in the pool.
        beam: beam size; None for the run's decode settings.
        n_best: the number of hypotheses to return, at most the beam size.
        max_length: the maximum number of output tokens; None for the run's decode settings.
        prefix: forced beginning of the output.
        alignment: return the word alignment from encoder–decoder attention.
        temperature: sample with this temperature.
        top_k: sample from this many of the most probable tokens.
        top_p: sample from the most probable tokens with this total probability.
        seed: seed of the random numbers.
        constraints: terms that must occur in the output, each a set of alternatives.
    """

    model: str
    text: str
    beam: int | None = None
    n_best: int = 1
    max_length: int | None = None
    prefix: str = ""
    alignment: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    constraints: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Hypothesis:
    """One output. The score is that of `translate --scores`; alignment pairs are (source word, target word), from 0."""

    text: str
    score: float
    alignment: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Result:
    """The hypotheses of a job, best first, and the number of tokens that were read and written."""

    hypotheses: tuple[Hypothesis, ...]
    source_tokens: int
    target_tokens: int


@dataclass(frozen=True)
class ModelInfo:
    """Description of a run in the pool.

    Attributes:
        task: the task of the run, such as "translation" or "language_model".
        source_language: code such as "en"; None if the run does not state it.
        target_language: code such as "fr"; None if the run does not state it.
        max_source: the maximum number of source tokens that are decoded in one pass.
        limits: further limits by name, such as the maximum beam size.
        aligns: its jobs may ask for a prefix, terms and the alignment; only the native engine has them.
    """

    name: str
    task: str
    source_language: str | None = None
    target_language: str | None = None
    max_source: int | None = None
    limits: dict[str, int] = field(default_factory=dict)
    aligns: bool = False


class QueueFull(Exception):
    """The queue is full; `retry_after` is the estimated number of seconds until there is room."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"The queue is full; retry in {retry_after:.1f} s.")
        self.retry_after = retry_after


class JobFailed(Exception):
    """A job cannot be done because of its input: what is wrong, where, and a hint."""

    def __init__(self, message: str, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint


class WorkerLost(Exception):
    """The worker processes that ran a job ended before they answered."""
