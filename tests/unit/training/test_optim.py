"""Adam and the schedule, compared with PyTorch's and with the paper's formula."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

from glassformer.settings import TrainSettings
from glassformer.training.optim import BETAS, EPSILON, FlatOptimizer, learning_rate


def course(**said: object) -> TrainSettings:
    rest = {"batch_tokens": 1, "validate_every": 1, "checkpoint_every": 1, "patience": 0}
    return TrainSettings.model_validate({"steps": 100_000, **rest, **said})


@pytest.mark.parametrize("step", [1, 100, 3999, 4000, 4001, 100_000])
def test_schedule_of_the_paper(step: int) -> None:
    d_model, warmup = 512, 4000
    paper = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)  # §5.3
    assert learning_rate(step, course(lr=(d_model * warmup) ** -0.5, warmup=warmup)) == pytest.approx(paper)


@pytest.mark.parametrize(("schedule", "at_a_quarter"), [("cosine", 0.85355), ("linear", 0.75)])
def test_a_schedule_that_ends_at_0(schedule: str, at_a_quarter: float) -> None:
    s = course(lr=0.3, warmup=20, steps=220, schedule=schedule)
    rates = [learning_rate(step, s) for step in range(1, 221)]
    assert rates[9] == pytest.approx(0.15) and rates[19] == max(rates) == 0.3
    assert rates[69] == pytest.approx(0.3 * at_a_quarter, abs=1e-5)
    assert rates[119] == pytest.approx(0.15) and rates[-1] == pytest.approx(0, abs=1e-9)
    assert rates[20:] == sorted(rates[20:], reverse=True)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_such_a_schedule_ends_with_the_time_if_that_is_first(schedule: str) -> None:
    s = course(lr=0.3, warmup=20, steps=100_000, minutes=5.0, schedule=schedule)
    assert learning_rate(100, s, elapsed=0.5) == pytest.approx(0.15)
    assert learning_rate(200, s, elapsed=1.01) == pytest.approx(0, abs=1e-9)


def test_a_run_shorter_than_the_warmup_does_not_decay() -> None:
    assert learning_rate(5, course(lr=0.3, warmup=5, steps=5, schedule="cosine")) == 0.3


def network() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_flat_updates_equal_adamw_on_each_weight(weight_decay: float) -> None:
    """Weight decay applies to matrices only."""
    flat_model = network()
    plain_model = copy.deepcopy(flat_model)
    flat = FlatOptimizer(flat_model, weight_decay=weight_decay)
    matrices = [weight for weight in plain_model.parameters() if weight.dim() > 1]
    vectors = [weight for weight in plain_model.parameters() if weight.dim() == 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    plain = torch.optim.AdamW(groups, betas=BETAS, eps=EPSILON)
    for step in range(1, 6):
        x = torch.randn(11, 5)
        lr = learning_rate(step, course(lr=0.1, warmup=3))
        flat_model(x).pow(2).sum().backward()
        flat_norm = flat.step(lr=lr, count=11, clip=0.5)
        plain.zero_grad()
        (plain_model(x).pow(2).sum() / 11).backward()
        plain_norm = nn.utils.clip_grad_norm_(plain_model.parameters(), 0.5)
        for group in plain.param_groups:
            group["lr"] = lr
        plain.step()
        assert flat_norm == pytest.approx(float(plain_norm), rel=1e-5)
    for a, b in zip(flat_model.parameters(), plain_model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_gradients_accumulate_until_the_update() -> None:
    model = network()
    optimizer, x = FlatOptimizer(model), torch.randn(4, 5)
    model(x).sum().backward()
    once = optimizer.gradient.clone()
    model(x).sum().backward()
    torch.testing.assert_close(optimizer.gradient, 2 * once)
    optimizer.step(lr=0.1, count=1, clip=0)
    assert optimizer.gradient.abs().sum() == 0


def test_a_restored_state_gives_the_same_updates() -> None:
    model = network()
    optimizer = FlatOptimizer(model)
    x = torch.randn(3, 5)

    def step(model: nn.Module, optimizer: FlatOptimizer) -> None:
        model(x).pow(2).sum().backward()
        optimizer.step(lr=0.05, count=3, clip=1.0)

    step(model, optimizer)
    twin = copy.deepcopy(network())
    twin.load_state_dict(model.state_dict())
    restored = FlatOptimizer(twin)
    restored.load({name: tensor.clone() for name, tensor in optimizer.state().items()})
    step(model, optimizer)
    step(twin, restored)
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert a.equal(b)


UPDATE = """
import sys, torch
from glassformer.training.optim import FlatOptimizer
model = torch.nn.Linear(5, 3)
optimizer = FlatOptimizer(model)
model(torch.ones(2, 5)).sum().backward()
optimizer.step(lr=0.1, count=2, clip=1.0)
sys.exit("torch._dynamo" in sys.modules)
"""


def test_an_update_does_not_import_the_compiler_of_pytorch() -> None:
    """Importing it takes longer than a short training."""
    assert subprocess.run([sys.executable, "-c", UPDATE], check=False).returncode == 0
