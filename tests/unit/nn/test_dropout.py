"""Dropout from random bytes: the rate, the scale, and the same mask in the backward pass."""

from __future__ import annotations

import pytest
import torch

from glassformer.nn.dropout import Dropout

MANY = 1_000_003


@pytest.mark.parametrize(("rate", "used"), [(0.1, 26 / 256), (0.3, 77 / 256), (0.5, 0.5)])
def test_rate_and_scale(rate: float, used: float) -> None:
    torch.manual_seed(0)
    kept = Dropout(rate)(torch.full((MANY,), 3.0))
    dropped = (kept == 0).double().mean().item()
    assert dropped == pytest.approx(used, abs=5 * (used * (1 - used) / MANY) ** 0.5)
    torch.testing.assert_close(kept[kept != 0].unique(), torch.tensor([3 / (1 - used)]))
    assert kept.double().mean().item() == pytest.approx(3, rel=5e-3)  # the expectation is exact


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    dropped = (Dropout(0.5)(torch.ones(8 * 100_003)) == 0).double()
    for apart in (1, 2, 7, 8, 64):
        both = (dropped[:-apart] * dropped[apart:]).mean().item()
        assert both == pytest.approx(0.25, abs=0.003), apart
    for place in range(8):  # all eight bytes of a draw are used alike
        assert dropped[place::8].mean().item() == pytest.approx(0.5, abs=0.008), place


def test_gradients_pass_where_values_passed() -> None:
    torch.manual_seed(0)
    x = torch.randn(7, 11, 13, requires_grad=True)
    upstream = torch.randn(7, 11, 13)
    y = Dropout(0.3)(x)
    y.backward(upstream)
    factor = torch.where(y == 0, 0.0, 1 / (1 - 77 / 256))
    torch.testing.assert_close(y, x * factor)
    torch.testing.assert_close(x.grad, upstream * factor)
    assert 0 < (y == 0).sum() < y.numel()


def test_the_input_is_not_modified() -> None:
    x = torch.ones(7, 11)
    Dropout(0.5)(x)
    assert (x == 1).all()


def test_nothing_happens_when_not_training() -> None:
    x = torch.randn(7, 11)
    assert torch.equal(Dropout(0.5).eval()(x), x)


def test_rate_zero_draws_nothing() -> None:
    x, before = torch.randn(7, 11), torch.get_rng_state()
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_depends_only_on_the_random_state() -> None:
    dropout, x = Dropout(0.3), torch.ones(7, 11, 13)
    torch.manual_seed(4)
    dropout(x)
    state = torch.get_rng_state()
    first, second = dropout(x), dropout(x)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x), first)
    assert torch.equal(dropout(x), second)
    assert not torch.equal(first, second)


def test_a_transposed_tensor_keeps_its_axes() -> None:
    torch.manual_seed(0)
    x = torch.arange(1.0, 78.0).view(7, 11).T
    y = Dropout(0.5)(x)
    assert torch.equal(y[y != 0], 2 * x[y != 0])


def test_any_rate_below_one_is_possible() -> None:
    torch.manual_seed(0)
    kept = Dropout(0.999)(torch.ones(MANY))
    assert kept.isfinite().all()
    assert 0 < (kept != 0).double().mean().item() < 0.01
