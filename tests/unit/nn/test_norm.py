"""Normalisation against its formulas, and the order of norm, sub-layer, dropout and residual."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.nn.dropout import Dropout
from glassformer.nn.norm import NORMALIZERS, BatchNorm, LayerNorm, PostNorm, PreNorm
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


def test_layer_norm_starts_as_pure_normalisation() -> None:
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


REAL = torch.arange(5) < torch.tensor([5, 2, 3])[:, None]  # three rows, two of them with padding


@pytest.mark.parametrize("padding", [False, True])
def test_batch_norm_is_torchs_over_all_real_tokens(enliven, padding: bool) -> None:
    """Outputs, gradients, and the running statistics that decide in evaluation."""
    torch.manual_seed(0)
    ours, theirs = enliven(BatchNorm(D)), nn.BatchNorm1d(D, momentum=0.1)
    theirs.weight.data.copy_(ours.weight.data)
    theirs.bias.data.copy_(ours.bias.data)
    real_BT = REAL if padding else torch.ones(3, 5, dtype=torch.bool)
    N = int(real_BT.sum())
    for _ in range(3):
        x_BTD = torch.randn(3, 5, D) * 7 + 2
        mine, other = x_BTD.clone().requires_grad_(), x_BTD[real_BT].clone().requires_grad_()
        found_ND, expected_ND = ours(mine, real_BT=real_BT if padding else None)[real_BT], theirs(other)
        torch.testing.assert_close(found_ND, expected_ND, atol=1e-5, rtol=1e-4)
        upstream_ND = torch.randn(N, D)
        found_ND.backward(upstream_ND)
        expected_ND.backward(upstream_ND)
        torch.testing.assert_close(mine.grad[real_BT], other.grad, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(ours.mean_D, theirs.running_mean)
        theirs.running_var.sub_(0.1 * x_BTD[real_BT].var(0) / N)  # they count N − 1, we N: what is divided by
        torch.testing.assert_close(ours.variance_D, theirs.running_var, atol=1e-5, rtol=1e-4)
    ours.eval()
    theirs.eval()
    x_BTD = torch.randn(3, 5, D)
    expected_BTD = theirs(x_BTD.flatten(0, 1)).view(3, 5, D)
    torch.testing.assert_close(ours(x_BTD), expected_BTD, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(ours.normalize(x_BTD), expected_BTD, atol=1e-5, rtol=1e-4)


def test_numbers_that_ran_away_leave_no_trace_in_the_statistics() -> None:
    norm = BatchNorm(D)
    norm(torch.full((3, 5, D), float("nan")))
    assert torch.equal(norm.mean_D, torch.zeros(D))
    assert torch.equal(norm.variance_D, torch.ones(D))


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("normalize", NORMALIZERS)
@pytest.mark.parametrize("around", [PostNorm, PreNorm])
def test_around_a_sub_layer(enliven, around: type[PostNorm] | type[PreNorm], normalize: str, residual: bool) -> None:
    torch.manual_seed(0)
    stands, x = enliven(around(D, 0.3, normalize=normalize, residual=residual)), torch.randn(3, 5, D)
    stands(torch.randn(3, 5, D), sub_layer)  # so that running statistics are not those of the beginning
    stands.eval()

    def norm(x: Tensor) -> Tensor:
        if normalize == "none":
            return x
        if normalize == "layer":
            return by_formula(stands.norm, x)
        scale = stands.norm.weight / (stands.norm.variance_D + 1e-5).sqrt()
        return (x - stands.norm.mean_D) * scale + stands.norm.bias

    kept = x if residual else torch.zeros_like(x)
    expected = norm(kept + sub_layer(x)) if around is PostNorm else kept + sub_layer(norm(x))
    torch.testing.assert_close(stands(x, sub_layer), expected)
    with torch.inference_mode():
        torch.testing.assert_close(stands.lean(x, sub_layer), expected)
