"""Initialization of processes, and collectives with a single process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist

from glassformer.errors import UserError
from glassformer.training.distributed import (
    SINGLE_PROCESS,
    ProcessGroup,
    agree_on_start,
    group_from_environment,
    init_process_group,
)


def test_rank_and_world_size_of_torchrun() -> None:
    assert group_from_environment({}) == SINGLE_PROCESS
    assert group_from_environment({"RANK": "3", "WORLD_SIZE": "8"}) == ProcessGroup(3, 8)


def test_collectives_of_one_process() -> None:
    assert SINGLE_PROCESS.broadcast_from_rank0(lambda: "made") == SINGLE_PROCESS.run_on_rank0(lambda: "made") == "made"
    assert SINGLE_PROCESS.all_gather(7) == [7]
    assert SINGLE_PROCESS.all_reduce([1.5, 2]) == [1.5, 2]
    tensor = torch.ones(2)
    SINGLE_PROCESS.all_reduce_(tensor)
    SINGLE_PROCESS.broadcast_([tensor])
    assert tensor.equal(torch.ones(2))
    SINGLE_PROCESS.check_equal("text", "text")

    def fail() -> None:
        raise UserError("wrong")

    with pytest.raises(UserError, match="wrong"):
        SINGLE_PROCESS.broadcast_from_rank0(fail)


def call_the_roll(store: dist.Store, size: int, seconds: float = 10.0) -> list[str]:
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda number: agree_on_start(store, ProcessGroup(number, size), seconds), range(size)))


def test_every_start_has_its_own_name_shared_by_all_ranks() -> None:
    store = dist.HashStore()
    names = [call_the_roll(store, size) for size in (3, 3, 3, 2, 4, 4)]  # what earlier starts wrote is still there
    assert all(len(set(of_one_start)) == 1 for of_one_start in names)
    assert len({of_one_start[0] for of_one_start in names}) == len(names)


def test_a_missing_process_is_a_timeout() -> None:
    store = dist.HashStore()
    call_the_roll(store, 2)
    with pytest.raises(TimeoutError, match="not all of the 2 processes connected"):
        agree_on_start(store, ProcessGroup(0, 2), 0.3)


@pytest.mark.parametrize("told", ["abc", "0", "-3", "inf", "nan", ""])
def test_an_invalid_timeout_is_refused(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("GLASSFORMER_TIMEOUT", told)
    with pytest.raises(UserError, match="GLASSFORMER_TIMEOUT"), init_process_group():
        pass
