"""Attention against the study notes' worked example, the paper's formula and PyTorch's own module."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.nn.attention import CrossAttention, SelfAttention, attend, merge_heads, split_heads
from glassformer.nn.masks import Mask, look_ahead_mask
from glassformer.nn.probe import Probe, Recorder

H, E, D = 3, 7, 21

# The worked example: three tokens of width 4, projected to width 3.
X = torch.tensor([[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
W_Q = torch.tensor([[1.0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])
W_K = torch.tensor([[0.0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
W_V = torch.tensor([[0.0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])
SCORES = torch.tensor([[2.0, 4, 4], [4, 16, 12], [4, 12, 10]])
WEIGHTS = torch.tensor([[0.13613, 0.43194, 0.43194], [0.00089045, 0.90884, 0.090267], [0.0074449, 0.75471, 0.23785]])
VALUES = torch.tensor([[1.8639, 6.3194, 1.7042], [1.9991, 7.8141, 0.2735], [1.9926, 7.4796, 0.7359]])


def test_the_worked_example_by_the_fused_path() -> None:
    torch.testing.assert_close(attend(X @ W_Q, X @ W_K, X @ W_V), VALUES, atol=6e-5, rtol=0)


def test_the_worked_example_step_by_step() -> None:
    seen = Recorder()
    values = attend(X @ W_Q, X @ W_K, X @ W_V, probe=seen)
    assert list(seen.tensors) == ["scores", "scaled_scores", "weights"]
    assert torch.equal(seen.tensors["scores"], SCORES)
    torch.testing.assert_close(seen.tensors["scaled_scores"], SCORES / 3**0.5)
    torch.testing.assert_close(seen.tensors["weights"], WEIGHTS, atol=6e-6, rtol=0)
    torch.testing.assert_close(values, VALUES, atol=6e-5, rtol=0)


@pytest.mark.parametrize("probe", [Probe(), Recorder()], ids=["fused", "explicit"])
def test_attention_without_scaling(probe: Probe) -> None:
    query, key, value = X @ W_Q, X @ W_K, X @ W_V
    expected = (query @ key.T).softmax(-1) @ value
    torch.testing.assert_close(attend(query, key, value, probe=probe, scaled=False), expected)
    if isinstance(probe, Recorder):
        assert list(probe.tensors) == ["scores", "weights"]


@pytest.mark.parametrize("probe", [Probe(), Recorder()], ids=["fused", "explicit"])
def test_a_masked_key_has_no_influence(probe: Probe) -> None:
    torch.manual_seed(1)
    query, key, value = torch.randn(2, 5, E), torch.randn(2, 11, E), torch.randn(2, 11, E)
    hidden = torch.tensor([3, 4, 10])
    mask = Mask(torch.zeros(11).index_fill(0, hidden, -math.inf))
    seen = [i for i in range(11) if i not in hidden]
    expected = attend(query, key[:, seen], value[:, seen])
    torch.testing.assert_close(attend(query, key, value, mask, probe), expected)
    if isinstance(probe, Recorder):
        assert (probe.tensors["weights"][:, :, hidden] == 0).all()  # exactly, not nearly
        assert (probe.tensors["masked_scores"][:, :, hidden] == -math.inf).all()
        torch.testing.assert_close(probe.tensors["weights"].sum(-1), torch.ones(2, 5))


def test_a_probe_may_replace_weights() -> None:
    class Uniform(Probe):
        def wants(self, name: str) -> bool:
            return name == "weights"

        def __call__(self, name: str, tensor: Tensor, operation: Any = None, *operands: Any) -> Tensor:
            return torch.full_like(tensor, 1 / tensor.shape[-1]) if name == "weights" else tensor

    torch.manual_seed(1)
    query, key, value = torch.randn(5, E), torch.randn(11, E), torch.randn(11, E)
    torch.testing.assert_close(attend(query, key, value, probe=Uniform()), value.mean(0).expand(5, E))


@pytest.mark.parametrize(
    "name",
    [
        "scores",
        "scaled_scores",
        "masked_scores",
        "weights",
    ],
)
def test_a_recorder_of_one_name_records_only_that_tensor(name: str) -> None:
    x = torch.randn(1, 5, E)
    seen = Recorder(name)
    attend(x, x, x, look_ahead_mask(5), seen)
    assert list(seen.tensors) == [name]


def by_the_paper(
    attention: SelfAttention | CrossAttention, x_TD: Tensor, memory_SD: Tensor, mask: Mask | None
) -> Tensor:
    """§3.2.2, one head after the other: Concat(head_1 … head_h)·W_O, head_i = Attention(x·W_Q^i, m·W_K^i, m·W_V^i)."""
    if isinstance(attention, SelfAttention):
        weight, bias = attention.query_key_value.weight, attention.query_key_value.bias
    else:
        weight = torch.cat([attention.query.weight, attention.key_value.weight])
        bias = torch.cat([attention.query.bias, attention.key_value.bias])
    heads = []
    for i in range(H):
        q, k, v = (slice(part * D + i * E, part * D + (i + 1) * E) for part in range(3))
        query = x_TD @ weight[q].T + bias[q]
        key, value = memory_SD @ weight[k].T + bias[k], memory_SD @ weight[v].T + bias[v]
        scores = query @ key.T / math.sqrt(E)
        scores = scores if mask is None else scores + mask.values
        heads.append(scores.exp() / scores.exp().sum(1, keepdim=True) @ value)
    return torch.cat(heads, dim=1) @ attention.output.weight.T + attention.output.bias


@pytest.fixture
def self_attention(enliven) -> SelfAttention:
    torch.manual_seed(1)
    return enliven(SelfAttention(D, H))


@pytest.fixture
def cross_attention(enliven) -> CrossAttention:
    torch.manual_seed(2)
    return enliven(CrossAttention(D, H))


@pytest.mark.parametrize("masked", [False, True])
def test_self_attention_by_the_formula_of_the_paper(self_attention: SelfAttention, masked: bool) -> None:
    x_BTD = torch.randn(2, 5, D)
    mask = look_ahead_mask(5) if masked else None
    expected = torch.stack([by_the_paper(self_attention, x, x, mask) for x in x_BTD])
    torch.testing.assert_close(self_attention(x_BTD, mask=mask), expected)
    torch.testing.assert_close(self_attention(x_BTD, mask=mask, probe=Recorder()), expected)


def test_cross_attention_by_the_formula_of_the_paper(cross_attention: CrossAttention) -> None:
    x_BTD, memory_BSD = torch.randn(2, 5, D), torch.randn(2, 11, D)
    expected = torch.stack([by_the_paper(cross_attention, x, m, None) for x, m in zip(x_BTD, memory_BSD, strict=True)])
    key_value = cross_attention.keys_and_values(memory_BSD)
    torch.testing.assert_close(cross_attention(x_BTD, key_value), expected)
    torch.testing.assert_close(cross_attention(x_BTD, key_value, probe=Recorder()), expected)


def peer_of(attention: SelfAttention | CrossAttention) -> nn.MultiheadAttention:
    peer = nn.MultiheadAttention(D, H, batch_first=True)
    packed = (
        [attention.query_key_value] if isinstance(attention, SelfAttention) else [attention.query, attention.key_value]
    )
    with torch.no_grad():
        peer.in_proj_weight.copy_(torch.cat([linear.weight for linear in packed]))
        peer.in_proj_bias.copy_(torch.cat([linear.bias for linear in packed]))
        peer.out_proj.weight.copy_(attention.output.weight)
        peer.out_proj.bias.copy_(attention.output.bias)
    return peer


def assert_same_gradients(attention: SelfAttention | CrossAttention, peer: nn.MultiheadAttention) -> None:
    packed = (
        [attention.query_key_value] if isinstance(attention, SelfAttention) else [attention.query, attention.key_value]
    )
    close = {"atol": 2e-5, "rtol": 1e-4}
    torch.testing.assert_close(torch.cat([p.weight.grad for p in packed]), peer.in_proj_weight.grad, **close)
    torch.testing.assert_close(torch.cat([p.bias.grad for p in packed]), peer.in_proj_bias.grad, **close)
    torch.testing.assert_close(attention.output.weight.grad, peer.out_proj.weight.grad, **close)
    torch.testing.assert_close(attention.output.bias.grad, peer.out_proj.bias.grad, **close)


@pytest.mark.parametrize("probe", [Probe(), Recorder()], ids=["fused", "explicit"])
def test_self_attention_equals_torch(self_attention: SelfAttention, probe: Probe) -> None:
    peer = peer_of(self_attention)
    ours, theirs = (torch.randn(2, 5, D, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    upstream = torch.randn(2, 5, D)
    output = self_attention(ours.requires_grad_(), mask=look_ahead_mask(5), probe=probe)
    blind = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected, _ = peer(*[theirs.requires_grad_()] * 3, attn_mask=blind, need_weights=False)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    output.backward(upstream)
    expected.backward(upstream)
    torch.testing.assert_close(ours.grad, theirs.grad, atol=2e-5, rtol=1e-4)
    assert_same_gradients(self_attention, peer)


@pytest.mark.parametrize("probe", [Probe(), Recorder()], ids=["fused", "explicit"])
def test_cross_attention_equals_torch(cross_attention: CrossAttention, probe: Probe) -> None:
    peer = peer_of(cross_attention)
    x_BTD, memory_BSD = torch.randn(2, 5, D), torch.randn(2, 11, D, requires_grad=True)
    padding_BS = torch.zeros(2, 11, dtype=torch.bool)
    padding_BS[0, 8:] = True
    mask = Mask(torch.zeros(2, 11).masked_fill(padding_BS, -math.inf)[:, None, None, :])
    upstream = torch.randn(2, 5, D)
    output = cross_attention(x_BTD, cross_attention.keys_and_values(memory_BSD), mask=mask, probe=probe)
    (ours,) = torch.autograd.grad(output, memory_BSD, upstream, retain_graph=True)
    output.backward(upstream)
    expected, _ = peer(x_BTD, memory_BSD, memory_BSD, key_padding_mask=padding_BS, need_weights=False)
    (theirs,) = torch.autograd.grad(expected, memory_BSD, upstream, retain_graph=True)
    expected.backward(upstream)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4)
    assert (ours[0, 8:] == 0).all()
    assert_same_gradients(cross_attention, peer)


def test_hypotheses_of_one_sentence_share_its_memory(cross_attention: CrossAttention) -> None:
    sentences, beam = 2, 5
    x_BQD, memory_BSD = torch.randn(sentences, beam, D), torch.randn(sentences, 11, D)
    mask = Mask(torch.zeros(sentences, 1, 1, 11))
    mask.values[1, ..., 7:] = -math.inf
    shared = cross_attention(x_BQD, cross_attention.keys_and_values(memory_BSD), mask=mask)
    repeated = cross_attention(
        x_BQD.view(-1, 1, D),
        cross_attention.keys_and_values(memory_BSD.repeat_interleave(beam, dim=0)),
        mask=Mask(mask.values.repeat_interleave(beam, dim=0)),
    )
    torch.testing.assert_close(shared, repeated.view(shared.shape))


def test_heads_are_blocks_of_the_width() -> None:
    B, T, parts = 2, 5, 2
    packed = torch.arange(B * T * parts * D).view(B, T, parts * D)
    first, second = split_heads(packed, parts, H)
    assert first.shape == (B, H, T, E)
    assert torch.equal(first[1, 2, 3], packed[1, 3, 2 * E : 3 * E])
    assert torch.equal(second[1, 2, 3], packed[1, 3, D + 2 * E : D + 3 * E])
    assert torch.equal(merge_heads(second), packed[..., D:])


def test_each_packed_projection_starts_with_the_variance_of_its_own_shape() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(96, 2)
    for block in attention.query_key_value.weight.chunk(3):  # Xavier: variance 2 / (in + out)
        assert block.var().item() == pytest.approx(1 / 96, rel=0.05)
    assert (attention.query_key_value.bias == 0).all()
