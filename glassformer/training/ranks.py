"""One run in several processes, on one machine or many: which one this is, and what they tell each other.

`torchrun` starts the processes and tells each its number. The first of them reads and writes the run folder; every one
has the text. What is not finite or interrupted in one of them is known to all after each step, so that all do the same;
what is too large for the memory of one is mended there, before the others are met. So nobody waits for ever.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
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

    def send(self, tensor: Tensor, *, to: int) -> None:
        """Send a tensor to a rank that receives one of the same shape."""
        with _lost():
            dist.send(tensor.contiguous(), to)

    def receive_(self, tensor: Tensor, *, source: int) -> None:
        """Fill a contiguous tensor with the one that a rank sends."""
        with _lost():
            dist.recv(tensor, source)

    def agree(self, value: str, what: str) -> None:
        """Refuses where a process has something else."""
        for number, other in enumerate(self.gather(value)):
            if other != value:
                raise UserError(
                    f"Process {number} has other {what} than process {self.number}.",
                    hint="give every machine the same files, settings and version of Glassformer",
                )


ALONE = Ranks()


def told(environment: os._Environ[str] | dict[str, str] = os.environ) -> Ranks:
    """Which process this is, as torchrun tells it; alone if nobody does."""
    return Ranks(int(environment.get("RANK", 0)), int(environment.get("WORLD_SIZE", 1)))


def by_torchrun() -> bool:
    """Whether torchrun started this: it starts a run again, by the same command, when a process was lost."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextlib.contextmanager
def joined() -> Iterator[Ranks]:
    """Meets the other processes, where there are any, for as long as the block lasts."""
    ranks = told()
    if ranks.size == 1:
        yield ranks
        return
    # PyTorch's Adam imports this. After the processes met, it would hold on to their group, and the group's threads
    # would be surprised by the end of the interpreter, and abort.
    import torch._dynamo

    device = _device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    seconds = _timeout()
    with _lost():
        timeout = timedelta(seconds=seconds)
        store, _, _ = next(dist.rendezvous("env://", timeout=timeout))
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=dist.PrefixStore(roll_call(store, ranks, seconds), store),
            rank=ranks.number,
            world_size=ranks.size,
            timeout=timeout,
        )
    try:
        yield ranks
        with _lost():
            dist.barrier()  # who leaves while others still talk cuts them off
        time.sleep(0.1)  # FSDP holds on to the group in any case: its threads let go of the last tensors meanwhile
    finally:
        dist.destroy_process_group()


def _timeout() -> float:
    told = os.environ.get("GLASSFORMER_TIMEOUT", str(TIMEOUT))
    try:
        seconds = float(told)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise UserError(f"'{told}' is no number of seconds.", where="GLASSFORMER_TIMEOUT", hint="say 600, or unset it")
    return seconds


def roll_call(store: dist.Store, ranks: Ranks, seconds: float) -> str:
    """A name for this very start of the processes, which all of them agree on.

    The store may outlive processes that were lost, and with it the addresses that they left there: whoever believed
    one would wait for the dead.
    """
    mine, answered = secrets.token_hex(8), ""
    store.set(f"here {ranks.number}", mine)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if ranks.first:
            store.set("roll", " ".join(store.get(f"here {number}").decode() for number in range(ranks.size)))
        roll = store.get("roll").decode()
        if roll != answered and roll.split()[ranks.number : ranks.number + 1] == [mine]:
            store.add(roll, 1)
            answered = roll
        if answered and store.add(answered, 0) == ranks.size:  # nobody on the roll is of an earlier start
            return answered
        time.sleep(0.01)
    raise TimeoutError(f"not all of the {ranks.size} processes came within {seconds:.0f} seconds")


def _device() -> torch.device:
    """Where the processes exchange small things."""
    return torch.device(machine.device())


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ConnectionError, TimeoutError) as error:  # dist.DistError is a RuntimeError
        raise UserError(
            f"The other processes of this run cannot be reached any more: {str(error).splitlines()[0]}",
            hint="torchrun --max-restarts 3 starts them again, and the run goes on from its last checkpoint",
        ) from error
