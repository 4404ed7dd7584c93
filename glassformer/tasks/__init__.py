"""What there is to learn. A task has data (`Data`), and with a tokenizer and settings becomes what the trainer knows
(`Task`). Each kind of task is one file; `read_data` is the only place where one is looked up by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from glassformer.planning import Choice
from glassformer.settings import DataSettings, Raw, Settings
from glassformer.text.preparation import Tell
from glassformer.text.tokenizer import Tokenizer

VALID, TEST = "valid", "test"


class Task(Protocol):
    """Examples to learn from and to be judged by, as a model takes them."""

    metric: str  # the entry of `scores` that decides which weights are best; higher is better

    @property
    def signature(self) -> str:
        """How exactly the metric is computed, as papers quote it; empty where there is one way only."""

    def batches(self, seed: int, position: Any) -> Iterator[Any]:
        """Training batches without end, from a position on; each carries `.next`, the position after it."""

    def loss(self, model: Any, batch: Any) -> tuple[Tensor, int]:
        """The summed loss of a batch, and how many predictions it is the sum of."""

    def part(self, batch: Any, number: int, of: int) -> Any | None:
        """Every `of`-th row of a batch from `number` on, counted from 0; None where that is none."""

    def where(self, batch: Any) -> list[str]:
        """Where the data of a batch stands, for a person to look at it."""

    def judge(self, model: Any, number: int, of: int, *, split: str = VALID, final: bool = False) -> Any:
        """What a model makes of its share of a held-out set; several processes each take one.

        final  the model is finished: look as closely as a person who uses it would, however long it takes
        """

    def scores(self, shares: list[Any], *, split: str = VALID) -> dict[str, float]:
        """Scores from what was made of all shares, in their order; `loss` (mean) is among them."""


class Report(Protocol):
    """What was read, kept and dropped, and why."""

    @property
    def counts(self) -> dict[str, int]:
        """Examples of each split."""

    @property
    def held_out(self) -> str:
        """Says that valid was carved out of train, or is empty."""

    def lines(self) -> list[str]:
        """All of it, in words."""

    def to_json(self) -> dict[str, Any]:
        """All of it, in numbers."""


class Chosen(NamedTuple):
    settings: Raw  # with all that can be chosen
    choices: list[Choice]  # those that took effect, with their reasons
    tokenizer: Tokenizer


class Data(Protocol):
    """What a run learns from and is judged by: read and checked, before there is a model.

    fingerprint  changes when an example to learn from or to choose the best weights by does
    labels       what a model chooses from, where the task is to choose
    """

    @property
    def fingerprint(self) -> str: ...

    @property
    def labels(self) -> list[str]: ...

    @property
    def report(self) -> Report: ...

    def choose(self, raw: Raw, known: Tokenizer | None, precision: tuple[str, str], tell: Tell) -> Chosen:
        """Settings that follow from the data, and a tokenizer: the one that is known already, or a new one."""

    def task(self, tokenizer: Tokenizer, settings: Settings, tell: Tell) -> Task:
        """The same as a model takes it."""


def read_data(task: str, settings: DataSettings, tell: Tell) -> Data:
    """The data of a kind of task."""
    from glassformer.tasks.translation import TranslationData

    kinds: dict[str, Callable[[DataSettings, Tell], Data]] = {"translation": TranslationData}
    return kinds[task](settings, tell)
