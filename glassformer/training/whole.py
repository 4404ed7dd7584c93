"""The model as each process holds it in most runs: whole, as one of equal copies.

Every process works on its part of a batch; then the gradients are added up over all, and each makes the same update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from glassformer.errors import Message, UserError, out_of_memory
from glassformer.inference.run import put_weights, weights_of
from glassformer.tasks import Task
from glassformer.training.events import Listener, Note
from glassformer.training.optim import FlatAdam
from glassformer.training.precision import autocast
from glassformer.training.ranks import Ranks

T = TypeVar("T")


class Held(Protocol):
    """A model under training, in however many processes. All of them call every method at the same time."""

    def gradients(self, batches: list[Any], *, seed: int) -> tuple[float, int]:
        """Adds up the gradients of this process's part of the batches; their summed loss and count."""

    def update(self, *, lr: float, count: int, clip: float) -> float:
        """One step along all processes' gradients, divided by the count of all. Returns the gradient's norm.

        Where that is no finite number, nothing changes.
        """

    def forget(self) -> None:
        """Gives up the gradients so far."""

    def weights(self) -> Mapping[str, Tensor]:
        """All weights by name, to be read inside `at_first`."""

    def moments(self) -> Mapping[str, Tensor]:
        """The optimizer's state by name, to be read inside `at_first`."""

    def at_first(self, work: Callable[[], T]) -> T | None:
        """Run `work` in the first rank, where it may read `weights` and `moments`; return None in the others.

        An error of the first rank ends all of them.
        """

    def load(
        self, weights: Mapping[str, Tensor], moments: Mapping[str, Tensor] | None = None, *, partial: bool = False
    ) -> None:
        """Load the first rank's weights, and its moments if there are any; the arguments of other ranks are ignored.

        partial  weights that are not given stay as they are
        """

    def evaluate(self, judge: Callable[[nn.Module, int, int], T]) -> list[T]:
        """Call `judge(model, number, of)` for every share of a held-out set and return the results in the first rank.

        The model has the present weights.
        """


class Whole:
    def __init__(self, model: nn.Module, task: Task, ranks: Ranks, precision: str, tell: Listener) -> None:
        self.model, self.task, self.ranks, self.precision, self.tell = model, task, ranks, precision, tell
        self.optimizer = FlatAdam(model)
        ranks.spread_([self.optimizer.weights.data])

    def gradients(self, batches: list[Any], *, seed: int) -> tuple[float, int]:
        """What does not fit in memory is cut in two and tried again, here and in no other process: none waits."""
        self.model.train()
        parts = my_part(self.task, batches, self.ranks)
        while True:
            torch.manual_seed(seed)
            try:
                return self._added_up(parts)
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
            parts = self._smaller(parts)
            self.forget()

    def _added_up(self, batches: list[Any]) -> tuple[float, int]:
        total, count = 0.0, 0
        for batch in batches:
            with autocast(self.model, self.precision):
                loss, n = self.task.loss(self.model, batch)
            loss.backward()
            total, count = total + float(loss.detach()), count + n
        return total, count

    def _smaller(self, batches: list[Any]) -> list[Any]:
        halves = [self.task.part(batch, number, 2) for batch in batches for number in (0, 1)]
        smaller = [half for half in halves if half is not None]
        if len(smaller) == len(batches):
            raise UserError(
                "There is not enough memory for a single pair.",
                where=", ".join(where for batch in batches for where in self.task.where(batch)[:3]),
                hint="take a smaller model, or leave long lines out by data.max_words",
            )
        self.tell(Note(Message("not enough memory for a step; its batch is split into {n}", n=len(smaller))))
        return smaller

    def update(self, *, lr: float, count: int, clip: float) -> float:
        self.ranks.add_up_(self.optimizer.gradient)
        return self.optimizer.update(lr=lr, count=count, clip=clip)

    def forget(self) -> None:
        self.optimizer.forget()

    def weights(self) -> Mapping[str, Tensor]:
        self._agree()
        return weights_of(self.model)

    def moments(self) -> Mapping[str, Tensor]:
        return self.optimizer.state()

    def at_first(self, work: Callable[[], T]) -> T | None:
        return self.ranks.at_first(work)

    def load(
        self, weights: Mapping[str, Tensor], moments: Mapping[str, Tensor] | None = None, *, partial: bool = False
    ) -> None:
        self.ranks.at_first(lambda: put_weights(self.model, weights, partial=partial))
        self.ranks.spread_([self.optimizer.weights.data, *self.model.buffers()])
        if self.ranks.from_first(lambda: bool(moments)):
            if self.ranks.first:
                self.optimizer.load(moments or {})
            self.ranks.spread_(self.optimizer.moments())

    def evaluate(self, judge: Callable[[nn.Module, int, int], T]) -> list[T]:
        self._agree()
        return self.ranks.gather(judge(self.model.eval(), self.ranks.number, self.ranks.size))

    def _agree(self) -> None:
        """What each process counted on its part of the batches (batch normalisation) becomes the mean over all."""
        for counted in self.model.buffers():
            self.ranks.add_up_(counted)
            counted.div_(self.ranks.size)


def my_part(task: Task, batches: list[Any], ranks: Ranks) -> list[Any]:
    """This process's part of a step: whole batches where they come out even, rows of each otherwise."""
    if len(batches) % ranks.size == 0:
        return batches[ranks.number :: ranks.size]
    parts = [task.part(batch, ranks.number, ranks.size) for batch in batches]
    return [part for part in parts if part is not None]
