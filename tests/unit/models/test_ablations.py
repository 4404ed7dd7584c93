"""The parts that an ablation exchanges, against their formulas and PyTorch's batch normalization."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.models.ablations import NORMS, BatchNorm, NoNorm, ablate
from glassformer.nn.attention import SelfAttention
from glassformer.nn.norm import LayerNorm, PostNorm, PreNorm

D = 21
REAL = torch.arange(5) < torch.tensor([5, 2, 3])[:, None]  # three rows, two of them with padding


@pytest.mark.parametrize("padding", [False, True])
def test_batch_norm_is_torchs_over_all_real_tokens(enliven, padding: bool) -> None:
    """Compare outputs, gradients, and the running statistics that evaluation uses."""
    torch.manual_seed(0)
    ours, theirs = enliven(BatchNorm(D)), nn.BatchNorm1d(D, momentum=0.1)
    theirs.weight.data.copy_(ours.weight.data)
    theirs.bias.data.copy_(ours.bias.data)
    real_BT = REAL if padding else torch.ones(3, 5, dtype=torch.bool)
    N = int(real_BT.sum())
    for _ in range(3):
        x_BTD = torch.randn(3, 5, D) * 7 + 2
        mine, other = x_BTD.clone().requires_grad_(), x_BTD[real_BT].clone().requires_grad_()
        ours.real_BT = real_BT if padding else None
        found_ND, expected_ND = ours(mine)[real_BT], theirs(other)
        torch.testing.assert_close(found_ND, expected_ND, atol=1e-5, rtol=1e-4)
        upstream_ND = torch.randn(N, D)
        found_ND.backward(upstream_ND)
        expected_ND.backward(upstream_ND)
        torch.testing.assert_close(mine.grad[real_BT], other.grad, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(ours.mean_D, theirs.running_mean)
        theirs.running_var.sub_(0.1 * x_BTD[real_BT].var(0) / N)  # PyTorch divides by N − 1, we by N
        torch.testing.assert_close(ours.variance_D, theirs.running_var, atol=1e-5, rtol=1e-4)
    ours.eval()
    theirs.eval()
    x_BTD = torch.randn(3, 5, D)
    expected_BTD = theirs(x_BTD.flatten(0, 1)).view(3, 5, D)
    torch.testing.assert_close(ours(x_BTD), expected_BTD, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(ours.normalize(x_BTD), expected_BTD, atol=1e-5, rtol=1e-4)


def test_values_that_are_not_finite_do_not_enter_the_running_statistics() -> None:
    norm = BatchNorm(D)
    norm(torch.full((3, 5, D), float("nan")))
    assert torch.equal(norm.mean_D, torch.zeros(D))
    assert torch.equal(norm.variance_D, torch.ones(D))


def sub_layer(x: Tensor) -> Tensor:
    return x.flip(-1) * 3 + 1


def normalized(norm: nn.Module, x: Tensor) -> Tensor:
    """Return the result of a normalization in eval mode, by its formula."""
    if isinstance(norm, NoNorm):
        return x
    if isinstance(norm, BatchNorm):
        mean, variance = norm.mean_D, norm.variance_D
    else:
        assert isinstance(norm, LayerNorm)
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias


@pytest.mark.parametrize("residual", ["", "no_residual"])
@pytest.mark.parametrize("norm", ["", *NORMS])
@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_add_and_norm_with_ablations(enliven: Any, kind: Any, norm: str, residual: str) -> None:
    torch.manual_seed(0)
    add_norm, x = kind(D, 0.3), torch.randn(3, 5, D)
    ablate(add_norm, filter(None, [residual, norm]))
    enliven(add_norm)
    add_norm(torch.randn(3, 5, D), sub_layer)  # so that running statistics are not the initial ones
    add_norm.eval()
    kept = torch.zeros_like(x) if residual else x
    inner = x if kind is PostNorm else normalized(add_norm.norm, x)
    total = kept + sub_layer(inner)
    expected = normalized(add_norm.norm, total) if kind is PostNorm else total
    torch.testing.assert_close(add_norm(x, sub_layer), expected)


def test_attention_without_scaling() -> None:
    attention, x = SelfAttention(D, 3), torch.randn(2, 5, D)
    scaled = attention(x)
    ablate(attention, ["no_scaling"])
    attention.query_key_value.weight.data[:D] /= 7**0.5  # of the queries: the scores are divided by √d_k again
    torch.testing.assert_close(attention(x), scaled)
