"""One run in several processes, on one machine or many: which one this is, and what they tell each other.

`torchrun` starts the processes and tells each its number. The first of them reads and writes the run folder; every one
has the text. What is not finite, too large for the memory or interrupted in one of them is known to all after each
step, so that all do the same and nobody waits for ever.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from glassformer import machine
from glassformer.errors import UserError

T = TypeVar("T")

TIMEOUT = 1800.0  # seconds that a process waits for another; GLASSFORMER_TIMEOUT says otherwise


@dataclass(frozen=True)
class Ranks:
    """Process `number`, counted from 0, of `size`."""

    number: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        return self.number == 0

    def from_first(self, make: Callable[[], T]) -> T:
        """What the first process makes, in all of them. Its error ends them all, and it alone tells."""
        made = self.at_first(make)
        if self.size > 1:
            box = [made]
            with _lost():
                dist.broadcast_object_list(box, src=0, device=_device())
            made = box[0]
        return made  # type: ignore[return-value]

    def at_first(self, make: Callable[[], T]) -> T | None:
        """The same, kept in the first: the others get nothing, save the news of its error."""
        if self.size == 1:
            return make()
        made, wrong = None, None
        if self.first:
            try:
                made = make()
            except UserError as error:
                wrong = error
        if self.add_up([wrong is not None])[0]:
            raise wrong or SystemExit(2)
        return made

    def gather(self, mine: T) -> list[T]:
        """What each process has, in the order of their numbers, in all of them."""
        if self.size == 1:
            return [mine]
        found: list[T] = [mine] * self.size
        with _lost():
            dist.all_gather_object(found, mine)
        return found

    def add_up(self, numbers: Sequence[float]) -> list[float]:
        """The sums over all processes."""
        if self.size == 1:
            return list(numbers)
        summed = torch.tensor(numbers, dtype=torch.float64, device=_device())
        self.add_up_(summed)
        return [float(number) for number in summed]

    def add_up_(self, tensor: Tensor) -> None:
        """Puts the sum over all processes into a tensor."""
        if self.size > 1:
            with _lost():
                dist.all_reduce(tensor)

    def spread_(self, tensors: Sequence[Tensor]) -> None:
        """Puts the first process's values into the tensors of all."""
        if self.size > 1:
            with _lost():
                for tensor in tensors:
                    dist.broadcast(tensor, src=0)

    def agree(self, value: str, what: str) -> None:
        """Refuses where a process has something else."""
        for number, other in enumerate(self.gather(value)):
            if other != value:
                raise UserError(
                    f"Process {number} has other {what} than process {self.number}.",
                    fix="give every machine the same files, settings and version of Glassformer",
                )


ALONE = Ranks()


def told(environment: os._Environ[str] | dict[str, str] = os.environ) -> Ranks:
    """Which process this is, as torchrun tells it; alone if nobody does."""
    return Ranks(int(environment.get("RANK", 0)), int(environment.get("WORLD_SIZE", 1)))


def restarted() -> bool:
    """Whether torchrun has started this run before: a process was lost, or a machine came or went."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0


@contextlib.contextmanager
def joined() -> Iterator[Ranks]:
    """Meets the other processes, where there are any, for as long as the block lasts."""
    ranks = told()
    if ranks.size == 1:
        yield ranks
        return
    if machine.device() == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    seconds = float(os.environ.get("GLASSFORMER_TIMEOUT", TIMEOUT))
    with _lost():
        backend = "nccl" if machine.device() == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(seconds=seconds))
    try:
        yield ranks
    finally:
        dist.destroy_process_group()


def _device() -> torch.device:
    """Where the processes exchange small things."""
    return torch.device(machine.device())


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ConnectionError) as error:  # dist.DistError is one
        raise UserError(
            f"The other processes of this run cannot be reached any more: {str(error).splitlines()[0]}",
            fix="torchrun --max-restarts 3 starts them again, and the run goes on from its last checkpoint",
        ) from error
