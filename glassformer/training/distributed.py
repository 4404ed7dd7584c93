"""Distributed training with torch.distributed: the process group of a run and its collective operations.

`torchrun` starts the processes and sets their ranks. Rank 0 reads and writes the run folder; every rank reads the data.
After each step all ranks know whether any of them saw a non-finite loss or was interrupted, so all of them act alike. A
rank that runs out of memory splits its batch before it meets the others, so no rank waits forever.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from glassformer import machine
from glassformer.errors import UserError

T = TypeVar("T")

TIMEOUT = 1800.0  # seconds to wait for another rank; the environment variable GLASSFORMER_TIMEOUT overrides it


@dataclass(frozen=True)
class ProcessGroup:
    """This process's `rank` among the `world_size` processes of a run, and their collective operations.

    Every rank must call the same operations in the same order. With one process they do nothing.
    """

    rank: int = 0
    world_size: int = 1

    @property
    def is_rank0(self) -> bool:
        return self.rank == 0

    def broadcast_from_rank0(self, make: Callable[[], T]) -> T:
        """Call `make` on rank 0 and return its result on every rank. A `UserError` on rank 0 ends all ranks."""
        made = self.run_on_rank0(make)
        if self.world_size > 1:
            box = [made]
            with _connection_errors():
                dist.broadcast_object_list(box, src=0, device=_device())
            made = box[0]
        return made  # type: ignore[return-value]

    def run_on_rank0(self, make: Callable[[], T]) -> T | None:
        """Call `make` on rank 0; return None on other ranks. A `UserError` on rank 0, which reports it, ends all."""
        if self.world_size == 1:
            return make()
        made, failure = None, None
        if self.is_rank0:
            try:
                made = make()
            except UserError as error:
                failure = error
        if self.all_reduce([failure is not None])[0]:
            raise failure or SystemExit(2)
        return made

    def all_gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in the order of the ranks, on every rank."""
        if self.world_size == 1:
            return [value]
        values: list[T] = [value] * self.world_size
        with _connection_errors():
            dist.all_gather_object(values, value)
        return values

    def all_reduce(self, numbers: Sequence[float]) -> list[float]:
        """Return the sum over all ranks of each number."""
        if self.world_size == 1:
            return list(numbers)
        summed = torch.tensor(numbers, dtype=torch.float64, device=_device())
        self.all_reduce_(summed)
        return [float(number) for number in summed]

    def all_reduce_(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all ranks."""
        if self.world_size > 1:
            with _connection_errors():
                dist.all_reduce(tensor)

    def mean_(self, tensors: Iterable[Tensor]) -> None:
        """Replace tensors by their mean over all ranks."""
        for tensor in tensors:
            self.all_reduce_(tensor)
            tensor.div_(self.world_size)

    def broadcast_(self, tensors: Sequence[Tensor]) -> None:
        """Replace the tensors of every rank by those of rank 0."""
        if self.world_size > 1:
            with _connection_errors():
                for tensor in tensors:
                    dist.broadcast(tensor, src=0)

    def send(self, tensor: Tensor, *, dst: int) -> None:
        """Send a tensor to a rank, which receives it into one of the same shape."""
        with _connection_errors():
            dist.send(tensor.contiguous(), dst)

    def recv_(self, tensor: Tensor, *, src: int) -> None:
        """Receive a tensor from a rank into a contiguous one."""
        with _connection_errors():
            dist.recv(tensor, src)

    def check_equal(self, value: str, what: str) -> None:
        """Raise a `UserError` if a rank has another value."""
        for rank, other in enumerate(self.all_gather(value)):
            if other != value:
                raise UserError(
                    f"Rank {rank} and rank {self.rank} have different {what}.",
                    hint="give every machine the same files, settings and version of Glassformer",
                )


SINGLE_PROCESS = ProcessGroup()


def group_from_environment(environment: Mapping[str, str] = os.environ) -> ProcessGroup:
    """Return the rank and world size that torchrun set, without connecting to the other ranks."""
    return ProcessGroup(int(environment.get("RANK", 0)), int(environment.get("WORLD_SIZE", 1)))


def started_by_torchrun() -> bool:
    """Return whether torchrun started this process. It repeats the same command when a process has died."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextlib.contextmanager
def init_process_group() -> Iterator[ProcessGroup]:
    """Connect to the other ranks, if there are any, for the duration of the block."""
    group = group_from_environment()
    if group.world_size == 1:
        yield group
        return
    # torch.optim.Adam imports this module. If it were imported after init_process_group, it would keep a reference to
    # the group, whose threads would abort when the interpreter exits.
    import torch._dynamo

    device = _device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    seconds = _timeout()
    with _connection_errors():
        timeout = timedelta(seconds=seconds)
        store, _, _ = next(dist.rendezvous("env://", timeout=timeout))
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=dist.PrefixStore(agree_on_start(store, group, seconds), store),
            rank=group.rank,
            world_size=group.world_size,
            timeout=timeout,
        )
    try:
        yield group
        with _connection_errors():
            dist.barrier()  # a rank that exits earlier would close connections that others still use
        time.sleep(0.1)  # FSDP keeps the group: give its threads time to release the last tensors
    finally:
        dist.destroy_process_group()


def _timeout() -> float:
    text = os.environ.get("GLASSFORMER_TIMEOUT", str(TIMEOUT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise UserError(
            f"'{text}' is not a number of seconds.", where="GLASSFORMER_TIMEOUT", hint="set it to 600, or unset it"
        )
    return seconds


def agree_on_start(store: dist.Store, group: ProcessGroup, seconds: float) -> str:
    """Return a key prefix for this start of the processes, the same on all ranks.

    The store may outlive processes that died, and still hold the addresses that they wrote. A rank that used one of
    those would wait for a dead process. So every process writes a random token, rank 0 publishes the list of tokens,
    and the list is valid once every rank has found its own token in it and confirmed it.
    """
    token, confirmed = secrets.token_hex(8), ""
    store.set(f"here {group.rank}", token)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if group.is_rank0:
            store.set("roll", " ".join(store.get(f"here {rank}").decode() for rank in range(group.world_size)))
        tokens = store.get("roll").decode()
        if tokens != confirmed and tokens.split()[group.rank : group.rank + 1] == [token]:
            store.add(tokens, 1)
            confirmed = tokens
        if confirmed and store.add(confirmed, 0) == group.world_size:
            return confirmed
        time.sleep(0.01)
    raise TimeoutError(f"not all of the {group.world_size} processes connected within {seconds:.0f} seconds")


def _device() -> torch.device:
    """The device of the tensors that the collective operations exchange."""
    return torch.device(machine.device())


@contextlib.contextmanager
def _connection_errors() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ConnectionError, TimeoutError) as error:  # dist.DistError is a RuntimeError
        raise UserError(
            f"The connection to the other processes of this run is lost: {str(error).splitlines()[0]}",
            hint="start the run with torchrun --max-restarts 3: it then resumes from its last checkpoint",
        ) from error
