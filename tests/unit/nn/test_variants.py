"""Variants in the Transformer's descendants: activations, epsilons, unscaled embeddings, an output bias."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from glassformer.nn.embedding import Embedding
from glassformer.nn.feed_forward import FeedForward
from glassformer.nn.loss import smoothed_cross_entropy_plain
from glassformer.nn.norm import LayerNorm, PostNorm, PreNorm
from glassformer.nn.output_projection import OutputProjection
from glassformer.nn.probe import Recorder

V, D = 53, 7
EQUATIONS = {
    "relu": lambda x: x.clamp_min(0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "swish": lambda x: x / (1 + torch.exp(-x)),
}


@pytest.mark.parametrize("activation", EQUATIONS)
@torch.no_grad()
def test_activations(activation: str, enliven: Any) -> None:
    layer, x, seen = enliven(FeedForward(D, 11, activation=activation)), torch.randn(3, 5, D), Recorder()
    hidden = EQUATIONS[activation](F.linear(x, layer.expand.weight, layer.expand.bias))
    expected = F.linear(hidden, layer.contract.weight, layer.contract.bias)
    torch.testing.assert_close(layer(x, seen), expected)
    torch.testing.assert_close(seen.tensors["activations"], hidden)


@pytest.mark.parametrize("around", [PostNorm, PreNorm])
def test_epsilon_reaches_the_norm(around: Any) -> None:
    assert around(D, 0.0).norm.epsilon == 1e-5
    assert around(D, 0.0, epsilon=1e-12).norm.epsilon == 1e-12
    x = 1e-4 * torch.randn(2, 3, D)
    torch.testing.assert_close(LayerNorm(D, 1e-12)(x), F.layer_norm(x, (D,), eps=1e-12))
    assert not torch.allclose(LayerNorm(D, 1e-12)(x), LayerNorm(D)(x))


def test_an_unscaled_embedding() -> None:
    embedding = Embedding(V, D, scaled=False)
    assert torch.equal(embedding(torch.tensor([[5, 3]])), embedding.weight_VD[[5, 3]][None])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_constant_output_bias(smoothing: float) -> None:
    output = OutputProjection(Embedding(V, D).weight_VD, bias=True)
    assert output.bias_V is not None
    assert "bias_V" in dict(output.named_buffers()) and "bias_V" not in dict(output.named_parameters())
    output.bias_V.normal_()
    output.bias_V[3] = OutputProjection.NEVER
    hidden_ND, target_N = torch.randn(700, D, requires_grad=True), torch.randint(4, V, (700,))
    logits_NV = output(hidden_ND)
    torch.testing.assert_close(logits_NV, hidden_ND @ output.weight_VD.T + output.bias_V)
    assert (logits_NV.softmax(-1)[:, 3] == 0).all()
    chunked = output.loss(hidden_ND, target_N, smoothing)
    plain = smoothed_cross_entropy_plain(hidden_ND, output.weight_VD, target_N, smoothing, output.bias_V)
    torch.testing.assert_close(chunked, plain, rtol=1e-4, atol=1e-3)
    inputs = (hidden_ND, output.weight_VD)
    for one, other in zip(torch.autograd.grad(chunked, inputs), torch.autograd.grad(plain, inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
