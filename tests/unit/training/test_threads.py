"""Data parallelism among threads: the gradients of one thread, random numbers of its own for each, the same bits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.data.batching import Batch, PairBatches
from glassformer.errors import UserError
from glassformer.nn.lora import add_lora
from glassformer.nn.loss import without_padding
from glassformer.settings import TrainSettings
from glassformer.training import replica
from glassformer.training.distributed import SINGLE_PROCESS
from glassformer.training.events import Event, ignore
from glassformer.training.replicated import Replicated
from glassformer.training.threads import ThreadPool
from tests.families import EOS, PAD, VOCAB, recurrent, transformer

LENGTHS = [(3, 5), (7, 2), (5, 5), (2, 11), (7, 3)]  # of source and target; five rows do not divide evenly

SETTINGS: dict[str, Any] = {
    "steps": 3, "batch_tokens": 1000, "lr": 0.01, "warmup": 1,
    "validate_every": 1, "checkpoint_every": 1, "patience": 0,
}  # fmt: skip


class Pairs:
    """The parts of a translation task that a training step uses."""

    def __init__(self) -> None:
        random = torch.Generator().manual_seed(3)
        rows = [[torch.randint(EOS + 1, VOCAB, (n,), generator=random).tolist() for n in pair] for pair in LENGTHS]
        self.data = PairBatches([(source, target) for source, target in rows], batch_tokens=1000)

    def batch(self) -> Batch:
        return self.data.batch(list(range(len(LENGTHS))))

    def loss(self, model: Any, batch: Batch) -> tuple[Tensor, int]:
        hidden_BTD = model.hidden(batch.source_BS, batch.target_in_BT)
        hidden_ND, target_N = without_padding(hidden_BTD, batch.target_out_BT, PAD)
        return model.output.loss(hidden_ND, target_N, 0.1), len(target_N)

    def shard_batch(self, batch: Batch, index: int, count: int) -> Batch | None:
        rows = batch.rows[index::count]
        return self.data.batch(rows, batch.next) if rows else None

    def locations(self, batch: Batch) -> list[str]:
        return [f"pairs:{row}" for row in batch.rows]


def with_lora(**over: Any) -> nn.Module:
    model = transformer(**over)
    add_lora(model, 2)
    return model


@pytest.fixture(autouse=True)
def _restore_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Replicated]:
    """`training(2, transformer, dropout=0.3)`: a model with weights drawn from a fixed seed, trained by two threads."""
    monkeypatch.setattr(replica, "MIN_TOKENS", 1)

    def build(
        threads: int,
        family: Callable[..., nn.Module] = transformer,
        *,
        task: Any = None,
        listener: Any = None,
        **over: Any,
    ) -> Replicated:
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        settings = TrainSettings(optimizer=over.pop("optimizer", "adam"), **SETTINGS)
        chosen: Any = task or Pairs()
        return Replicated(family(**over), chosen, SINGLE_PROCESS, settings, listener or ignore)

    return build


def gradient(model: Replicated, seed: int = 5, batches: int = 1) -> tuple[Tensor, tuple[float, int]]:
    measured = model.backward([model.task.batch()] * batches, seed=seed)  # type: ignore[attr-defined]
    return model.optimizer.gradient.clone(), measured


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize(
    ("family", "over"),
    [
        (transformer, {}),
        (transformer, {"tie_embeddings": False, "norm": "pre", "output_bias": True}),
        (with_lora, {}),
        (recurrent, {"cell": "gru", "attention": "additive"}),
        (recurrent, {"cell": "lstm", "attention": "general"}),
        (recurrent, {"cell": "rnn", "attention": "none"}),
    ],
)
def test_threads_compute_the_gradient_of_one_thread(
    training: Callable[..., Replicated], threads: int, family: Callable[..., nn.Module], over: dict[str, Any]
) -> None:
    alone, (loss, count) = gradient(training(1, family, **over), batches=2)
    model = training(threads, family, **over)
    assert len(model.replicas) == threads - 1
    together, (loss_together, count_together) = gradient(model, batches=2)
    assert alone.abs().max() > 0.1
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    assert (loss_together, count_together) == (pytest.approx(loss), count)
    assert all(not replica.gradient.any() for replica in model.replicas)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_replicas_see_every_update(training: Callable[..., Replicated], optimizer: str) -> None:
    losses: dict[int, list[float]] = {}
    for threads in (1, 2):
        model = training(threads, optimizer=optimizer)
        for step in range(5):
            _, (loss, count) = gradient(model, seed=step)
            losses.setdefault(threads, []).append(loss)
            model.step(lr=0.01, count=count, clip=1.0)
    assert losses[1][-1] < 0.9 * losses[1][0]
    assert losses[2] == pytest.approx(losses[1], rel=1e-3)


def test_every_replica_drops_other_values(training: Callable[..., Replicated]) -> None:
    model = training(3, dropout=0.3)
    masks: dict[int, Tensor] = {}

    def record(number: int) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
            masks[number] = output == 0

        return hook

    models = [model.model, *(one.model for one in model.replicas)]
    task: Any = model.task
    task.loss = lambda part, batch: (part.dropout(torch.ones(1009, requires_grad=True)).sum(), 1)
    for number, part in enumerate(models):
        part.dropout.register_forward_hook(record(number))  # type: ignore[union-attr]
    gradient(model)
    first = dict(masks)
    assert len(first) == 3
    assert all(not first[i].equal(first[j]) for i in range(3) for j in range(i))
    gradient(model)
    assert all(masks[i].equal(first[i]) for i in range(3))
    gradient(model, seed=6)
    assert all(not masks[i].equal(first[i]) for i in range(3))


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_two_runs_give_the_same_bits(training: Callable[..., Replicated], optimizer: str) -> None:
    def train() -> Tensor:
        model = training(2, dropout=0.3, optimizer=optimizer)
        for step in range(5):
            _, (_, count) = gradient(model, seed=step)
            model.step(lr=0.01, count=count, clip=1.0)
        return model.optimizer.weights.detach().clone()

    first = train()
    assert all(train().equal(first) for _ in range(3))


def test_one_replica_draws_from_the_default_generator(training: Callable[..., Replicated]) -> None:
    """So that runs of one thread are those of earlier versions."""
    model = training(1, dropout=0.3)
    found, _ = gradient(model, seed=5)
    model.zero_grad()
    torch.manual_seed(5)
    model.task.loss(model.model, model.task.batch())[0].backward()  # type: ignore[attr-defined]
    assert found.equal(model.optimizer.gradient)


def test_batch_normalization_and_small_batches_are_not_divided() -> None:
    whole = transformer(ablations=["batch_norm"])
    assert replica.replica_count(whole, threads=4, batch_tokens=100_000) == 1
    model = transformer()
    assert replica.replica_count(model, threads=4, batch_tokens=100_000) == 4
    assert replica.replica_count(model, threads=4, batch_tokens=2 * replica.MIN_TOKENS) == 2
    assert replica.replica_count(model, threads=4, batch_tokens=replica.MIN_TOKENS) == 1
    assert replica.replica_count(model, threads=4, batch_tokens=1) == 1
    assert replica.replica_count(model, threads=100, batch_tokens=100_000) == replica.MAX_REPLICAS


class Cramped(Pairs):
    """Runs out of memory for batches of more than `room` rows, in the replicas only."""

    room = 1

    def loss(self, model: Any, batch: Batch) -> tuple[Tensor, int]:
        loss, count = super().loss(model, batch)
        if len(batch.rows) > self.room and threading.current_thread() is not threading.main_thread():
            loss.backward()  # the part computed before the memory ran out must not count
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")
        return loss, count


def test_a_batch_that_does_not_fit_into_memory_is_split(training: Callable[..., Replicated]) -> None:
    notes: list[Event] = []
    alone, measured = gradient(training(1))
    split, measured_split = gradient(training(2, task=Cramped(), listener=notes.append))
    torch.testing.assert_close(split, alone, atol=1e-5, rtol=1e-4)
    assert measured_split == (pytest.approx(measured[0]), measured[1])
    assert notes


def test_a_row_that_does_not_fit_is_an_error(training: Callable[..., Replicated]) -> None:
    task = Cramped()
    task.loss = lambda model, batch: (_ for _ in ()).throw(MemoryError())  # type: ignore[method-assign]
    with pytest.raises(UserError, match="a batch of one example"):
        gradient(training(2, task=task))


def test_tasks_divide_the_intra_op_threads() -> None:
    torch.set_num_threads(4)
    pool = ThreadPool(4)
    assert pool.run([torch.get_num_threads] * 2) == [2, 2]
    assert pool.run([torch.get_num_threads] * 7) == [1] * 7
    assert pool.run([torch.get_num_threads]) == [4]
    assert torch.get_num_threads() == 4


def test_tasks_run_at_the_same_time_and_keep_their_order() -> None:
    both = threading.Barrier(2, timeout=60)

    def task(number: int) -> Callable[[], int]:
        def meet() -> int:
            both.wait()
            return number

        return meet

    assert ThreadPool(2).run([task(number) for number in range(6)]) == list(range(6))


@pytest.mark.parametrize("bad", [0, 1])
def test_an_error_is_raised_when_every_thread_has_ended(bad: int) -> None:
    ended, both = threading.Event(), threading.Barrier(2, timeout=60)

    def good() -> None:
        both.wait()
        ended.set()

    def fail() -> None:
        both.wait()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ThreadPool(2).run([fail, good] if bad == 0 else [good, fail])
    assert ended.is_set()
