"""Normalisation against its formulas, and the order of norm, sub-layer, dropout and residual."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.nn.dropout import Dropout
from glassformer.nn.norm import LayerNorm, PostNorm, PreNorm
from glassformer.nn.probe import Recorder

D = 21


@pytest.fixture
def norm(enliven) -> LayerNorm:
    torch.manual_seed(0)
    return enliven(LayerNorm(D))


def by_formula(norm: LayerNorm, x: Tensor) -> Tensor:
    mean = x.sum(-1, keepdim=True) / D
    variance = ((x - mean) ** 2).sum(-1, keepdim=True) / D
    return (x - mean) / (variance + 1e-5) ** 0.5 * norm.weight + norm.bias


def test_layer_norm_by_its_formula(norm: LayerNorm) -> None:
    x = torch.randn(3, 5, D) * 7 + 2
    torch.testing.assert_close(norm(x), by_formula(norm, x))


def test_layer_norm_equals_torch_also_for_tiny_variance(norm: LayerNorm) -> None:
    x = torch.randn(3, 5, D) * 1e-3  # where epsilon matters
    torch.testing.assert_close(norm(x), F.layer_norm(x, (D,), norm.weight, norm.bias, eps=1e-5))


def test_initial_layer_norm_only_normalizes() -> None:
    y = LayerNorm(D)(torch.randn(3, 5, D) * 7 + 2)
    torch.testing.assert_close(y.mean(-1), torch.zeros(3, 5), atol=1e-6, rtol=0)
    torch.testing.assert_close(y.var(-1, unbiased=False), torch.ones(3, 5), atol=1e-5, rtol=0)


def test_the_probe_sees_mean_and_deviation_that_give_the_output(norm: LayerNorm) -> None:
    x, seen = torch.randn(3, 5, D) * 7 + 2, Recorder()
    y = norm(x, seen)
    mean, deviation = seen.tensors["mean"], seen.tensors["deviation"]
    assert mean.shape == deviation.shape == (3, 5, 1)
    torch.testing.assert_close((x - mean) / deviation * norm.weight + norm.bias, y)


def sub_layer(x: Tensor) -> Tensor:
    return x.flip(-1) * 3 + 1


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_post_norm(enliven, rate: float) -> None:
    torch.manual_seed(0)
    around, x, seen = enliven(PostNorm(D, rate)), torch.randn(3, 5, D), Recorder()
    torch.manual_seed(1)
    y = around(x, sub_layer, seen)
    torch.manual_seed(1)
    total = x + Dropout(rate)(sub_layer(x))
    torch.testing.assert_close(y, by_formula(around.norm, total))
    assert torch.equal(seen.tensors["residual"], total)
    assert torch.equal(seen.tensors["norm"], y)


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_pre_norm(enliven, rate: float) -> None:
    torch.manual_seed(0)
    around, x, seen = enliven(PreNorm(D, rate)), torch.randn(3, 5, D), Recorder()
    torch.manual_seed(1)
    y = around(x, sub_layer, seen)
    torch.manual_seed(1)
    torch.testing.assert_close(y, x + Dropout(rate)(sub_layer(by_formula(around.norm, x))))
    torch.testing.assert_close(seen.tensors["norm"], by_formula(around.norm, x))
    assert torch.equal(seen.tensors["residual"], y)
