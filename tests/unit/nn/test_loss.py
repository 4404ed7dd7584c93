"""The chunked loss against the plain one and against the definition of label smoothing."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from glassformer import machine
from glassformer.nn.loss import (
    CHUNK,
    consistent_cross_entropy,
    consistent_cross_entropy_plain,
    smoothed_cross_entropy,
    smoothed_cross_entropy_plain,
)

D, V = 13, 37


def example(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(rows)
    hidden_ND = torch.randn(rows, D, requires_grad=True)
    weight_VD = torch.randn(V, D, requires_grad=True)
    return hidden_ND, weight_VD, torch.randint(V, (rows,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 7, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3])
def test_chunked_equals_plain(rows: int, smoothing: float) -> None:
    hidden, weight, target = example(rows)
    chunked = smoothed_cross_entropy(hidden, weight, target, smoothing)
    plain = smoothed_cross_entropy_plain(hidden, weight, target, smoothing)
    torch.testing.assert_close(chunked, plain, rtol=1e-5, atol=1e-5)
    ours = torch.autograd.grad(2.5 * chunked, (hidden, weight))  # an upstream gradient that is not 1
    theirs = torch.autograd.grad(2.5 * plain, (hidden, weight))
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, rtol=1e-4, atol=2e-4)


@pytest.mark.skipif(not machine.bf16_works(), reason="a bf16 matmul does not work on this CPU")
def test_matmuls_in_bf16_under_autocast() -> None:
    hidden, weight, target = example(CHUNK + 3)
    exact = smoothed_cross_entropy(hidden, weight, target, 0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = smoothed_cross_entropy(hidden, weight, target, 0.1)
    assert rounded.dtype == torch.float32
    assert rounded != exact
    torch.testing.assert_close(rounded, exact, rtol=1e-3, atol=0)
    for loose, tight in zip(
        torch.autograd.grad(rounded, (hidden, weight)), torch.autograd.grad(exact, (hidden, weight)), strict=True
    ):
        assert loose.dtype == torch.float32
        assert (loose - tight).norm() < 0.02 * tight.norm()


def test_by_the_definition() -> None:
    hidden, weight, target = example(7)
    epsilon = 0.1
    log_probability = (hidden @ weight.T).log_softmax(1)
    label = torch.full((7, V), epsilon / V)
    label[torch.arange(7), target] = 1 - epsilon + epsilon / V
    expected = -(label * log_probability).sum()
    for loss in (smoothed_cross_entropy, smoothed_cross_entropy_plain):
        torch.testing.assert_close(loss(hidden, weight, target, epsilon), expected, rtol=1e-5, atol=1e-5)


def test_without_gradients() -> None:
    hidden, weight, target = example(CHUNK + 1)
    with torch.no_grad():
        chunked = smoothed_cross_entropy(hidden, weight, target, 0.1)
    assert not chunked.requires_grad
    torch.testing.assert_close(chunked, smoothed_cross_entropy_plain(hidden, weight, target, 0.1).detach())


@pytest.mark.parametrize("frozen", ["hidden", "weight"])
def test_one_side_may_be_frozen(frozen: str) -> None:
    hidden, weight, target = example(7)
    (hidden if frozen == "hidden" else weight).requires_grad_(False)
    free = weight if frozen == "hidden" else hidden
    (ours,) = torch.autograd.grad(smoothed_cross_entropy(hidden, weight, target, 0.1), free)
    (theirs,) = torch.autograd.grad(smoothed_cross_entropy_plain(hidden, weight, target, 0.1), free)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_hidden_tensor_in_another_order_of_memory() -> None:
    hidden, weight, target = example(CHUNK + 1)
    other = hidden.detach().T.contiguous().T.requires_grad_()
    assert not other.is_contiguous()
    (ours,) = torch.autograd.grad(smoothed_cross_entropy(other, weight, target, 0.1), other)
    (theirs,) = torch.autograd.grad(smoothed_cross_entropy(hidden, weight, target, 0.1), hidden)
    torch.testing.assert_close(ours, theirs)


def test_huge_logits_do_not_overflow() -> None:
    hidden, weight, target = example(7)
    loss = smoothed_cross_entropy(hidden * 1000, weight, target, 0.1)
    assert math.isfinite(loss.item())
    torch.testing.assert_close(loss, smoothed_cross_entropy_plain(hidden * 1000, weight, target, 0.1))


def test_the_inputs_stay_as_they_are() -> None:
    hidden, weight, target = example(7)
    before = hidden.detach().clone(), weight.detach().clone()
    smoothed_cross_entropy(hidden, weight, target, 0.1).backward()
    assert torch.equal(hidden, before[0])
    assert torch.equal(weight, before[1])


@pytest.mark.parametrize("rows", [1, CHUNK, CHUNK + 3])
def test_consistency_equals_plain(rows: int) -> None:
    hidden, weight, target = example(2 * rows)
    target = target[:rows].repeat(2)
    chunked = consistent_cross_entropy(hidden, weight, target, 0.1, 3.0)
    plain = consistent_cross_entropy_plain(hidden, weight, target, 0.1, 3.0)
    torch.testing.assert_close(chunked, plain, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(
        torch.autograd.grad(2.5 * chunked, (hidden, weight)),
        torch.autograd.grad(2.5 * plain, (hidden, weight)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-4)


def test_equal_passes_have_no_consistency_loss() -> None:
    hidden, weight, target = example(7)
    loss = consistent_cross_entropy(hidden.repeat(2, 1), weight, target.repeat(2), 0.1, 3.0)
    torch.testing.assert_close(loss, smoothed_cross_entropy(hidden, weight, target, 0.1))
