"""The operations of bf16 training against PyTorch in fp64, forward and backward, for every instruction set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer import machine
from glassformer.nn import fused
from glassformer.nn.attention import SelfAttention, rotate, separate, split_heads
from glassformer.nn.dropout import Dropout
from glassformer.nn.loss import consistent_cross_entropy_plain, smoothed_cross_entropy
from glassformer.nn.masks import look_ahead_mask, padding_mask
from glassformer.nn.norm import PreNorm
from glassformer.nn.positional_encoding import sinusoids

ROUNDING = 2**-8  # of bf16: half a unit in the last place of eight binary digits


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape).to(dtype).requires_grad_()


def assert_rounded(found: Tensor, exact: Tensor) -> None:
    """Every value is that of fp64, rounded to bf16 and with a small error of fp32 sums."""
    torch.testing.assert_close(
        found.double(), exact.double(), rtol=ROUNDING, atol=1e-5 * exact.detach().abs().max().item()
    )


def gradients(output: Tensor, inputs: Iterable[Tensor], upstream: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(output, tuple(inputs), upstream.to(output.dtype))


def explicit_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, causal: bool, scale: float
) -> Tensor:
    scores = query @ key.mT * scale
    if causal:
        scores = scores + look_ahead_mask(query.shape[-2]).values.double()
    if mask is None:
        return scores.softmax(-1) @ value
    seen = (mask == 0).any(-1, keepdim=True)  # the weights of a query that sees no key are 0
    return (scores + mask.masked_fill(~seen, 0)).softmax(-1) * seen @ value


@pytest.mark.parametrize("kind", ["plain", "padding", "causal"])
@pytest.mark.parametrize(("Q", "K", "E"), [(1, 1, 1), (7, 11, 5), (13, 13, 16), (16, 16, 64), (37, 17, 33)])
def test_attention(instruction_sets: Iterable[str], Q: int, K: int, E: int, kind: str) -> None:
    torch.manual_seed(0)
    B, H, causal, scale = 5, 3, kind == "causal", 0.7 / math.sqrt(E)
    K = Q if causal else K
    query, key_value = random(B, Q, H * E), random(B, K, 2 * H * E)
    (one,), (two, three) = separate(split_heads(query, 1, H)), separate(split_heads(key_value, 2, H))
    lengths = torch.tensor([K, 0, 1, K // 2, K - 1])  # a sentence of padding alone, too
    padding = torch.zeros(B, 1, 1, K).masked_fill_(torch.arange(K) >= lengths[:, None, None, None], -math.inf)
    mask, upstream = padding if kind == "padding" else None, torch.randn(B, H, Q, E).bfloat16()
    exact = explicit_attention(one.double(), two.double(), three.double(), mask, causal=causal, scale=scale)
    expected = gradients(exact, (one, two, three), upstream)
    for _ in instruction_sets:
        found = fused.attention(one, two, three, mask, causal=causal, scale=scale)
        assert_rounded(found, exact)
        for our, their in zip(gradients(found, (one, two, three), upstream), expected, strict=True):
            torch.testing.assert_close(our.double(), their.double(), rtol=2 * ROUNDING, atol=1e-3)


def test_attention_takes_any_layout(native: object) -> None:
    torch.manual_seed(0)
    query, key, value = (random(3, 11, 2, 7).permute(0, 2, 3, 1) for _ in range(3))  # numbers of a row are apart
    exact = F.scaled_dot_product_attention(query.double(), key.double(), value.double())
    found = fused.attention(query, key, value)
    assert_rounded(found, exact)
    ones = torch.ones(()).expand(found.shape)  # a gradient whose strides are 0
    for our, their in zip(
        gradients(found, (query, key, value), ones), gradients(exact, (query, key, value), ones), strict=True
    ):
        torch.testing.assert_close(our.double(), their.double(), rtol=2 * ROUNDING, atol=1e-3)


def test_attention_keeps_what_is_not_finite(native: object) -> None:
    query, key, value = random(1, 1, 3, 7), random(1, 1, 3, 7), random(1, 1, 3, 7)
    with torch.no_grad():
        query[0, 0, 1, 2] = math.nan
    assert fused.attention(query, key, value)[0, 0].isnan().any(-1).tolist() == [False, True, False]


def test_what_attention_does_not_take(native: object) -> None:
    short = torch.zeros(2, 3, 5, 7, dtype=torch.bfloat16)
    long = torch.zeros(2, 3, fused.MAX_LENGTH + 1, 7, dtype=torch.bfloat16)
    assert fused.attention_fits(short, short, None)
    assert fused.attention_fits(short, short, torch.zeros(2, 1, 1, 5))
    assert not fused.attention_fits(short, short, torch.zeros(5, 5))
    assert not fused.attention_fits(short, short, torch.zeros(2, 1, 5, 5))
    assert not fused.attention_fits(short, long, None)
    assert not fused.attention_fits(short[0], short[0], None)
    assert not fused.attention_fits(short[:, :, :0], short, None)
    assert not fused.attention_fits(short, short.float(), None)  # it would read the numbers as bf16


@pytest.mark.parametrize(("T", "E"), [(1, 2), (7, 10), (13, 32)])
@pytest.mark.parametrize("rows", ["one per token", "one for all"])
def test_rotate(instruction_sets: Iterable[str], T: int, E: int, rows: str) -> None:
    torch.manual_seed(0)
    x, upstream = random(5, T, 3 * 11 * E), torch.randn(5, 11, T, E)
    one = separate(split_heads(x, 3, 11))[1]
    rotation = sinusoids(T + 2, E)[2:] if rows == "one per token" else sinusoids(3, E)[2:]
    exact = rotate(one.double(), rotation.double())
    (exact_gradient,) = gradients(exact, [one], upstream)
    for _ in instruction_sets:
        found = fused.rotate(one, rotation)
        assert_rounded(found, exact)
        (gradient,) = gradients(found, [one], upstream.bfloat16())
        torch.testing.assert_close(gradient, exact_gradient, rtol=2 * ROUNDING, atol=0.02)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("N", "V", "smoothing"), [(1, 1, 0.1), (7, 11, 0.0), (3, 37, 0.1), (5, 4001, 0.1)])
def test_cross_entropy(instruction_sets: Iterable[str], N: int, V: int, smoothing: float, bias: bool) -> None:
    torch.manual_seed(0)
    logits, target = (3 * torch.randn(N, V)).bfloat16(), torch.randint(V, (N,))
    bias_V = torch.randn(V).masked_fill_(torch.rand(V) < 0.1, -1e4) if bias else None
    doubles = logits.double().requires_grad_()
    biased = doubles if bias_V is None else doubles + bias_V.double()
    exact = F.cross_entropy(biased, target, label_smoothing=smoothing, reduction="sum")
    (expected,) = torch.autograd.grad(exact, doubles)
    for _ in instruction_sets:
        found = logits.clone()
        loss = fused.cross_entropy_(found, target, smoothing, bias_V)
        assert loss == pytest.approx(exact.item(), rel=1e-5, abs=1e-5)
        torch.testing.assert_close(found.double(), expected, rtol=ROUNDING, atol=1e-6)


@pytest.mark.parametrize(("N", "V"), [(1, 2), (7, 11), (5, 401)])
def test_consistent_cross_entropy(instruction_sets: Iterable[str], N: int, V: int) -> None:
    torch.manual_seed(0)
    logits, target, bias_V = (2 * torch.randn(2 * N, V)).bfloat16(), torch.randint(V, (N,)), torch.randn(V)
    doubles = logits.double().requires_grad_()
    cross_entropy = F.cross_entropy(doubles + bias_V, target.repeat(2), label_smoothing=0.1, reduction="sum")
    p, q = (doubles + bias_V).log_softmax(1).chunk(2)
    exact = cross_entropy / 2 + 5 / 4 * ((p.exp() - q.exp()) * (p - q)).sum()
    plain = consistent_cross_entropy_plain(logits.float(), torch.eye(V), target.repeat(2), 0.1, 5.0, bias_V)
    torch.testing.assert_close(exact.float(), plain, rtol=1e-4, atol=1e-4)
    (expected,) = torch.autograd.grad(exact, doubles)
    for _ in instruction_sets:
        first, second = (half.clone() for half in logits.chunk(2))
        loss = fused.consistent_cross_entropy_(first, second, target, 0.1, 5.0, bias_V)
        assert loss == pytest.approx(exact.item(), rel=1e-5)
        torch.testing.assert_close(torch.cat([first, second]).double(), expected, rtol=ROUNDING, atol=1e-5)


@pytest.mark.parametrize("target", [-1, 11])
def test_a_target_outside_the_vocabulary_is_refused(native: object, target: int) -> None:
    with pytest.raises(ValueError, match="invalid argument"):
        fused.cross_entropy_(torch.zeros(1, 11, dtype=torch.bfloat16), torch.tensor([target]), 0.1)


@pytest.mark.parametrize("shape", [(1,), (7, 11, 13), (64, 32)])
def test_add_dropout(instruction_sets: Iterable[str], shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, y, upstream = random(*shape, dtype=torch.float32), random(*shape), torch.randn(shape)
    bytes_ = torch.randint(256, (x.numel(),), dtype=torch.uint8)
    factor = (bytes_ >= 77).view(shape).double() / (1 - 77 / 256)
    for _ in instruction_sets:
        found = fused.add_dropout(x, y, bytes_, 77)
        torch.testing.assert_close(found, (x + y.double() * factor).float())
        grad_x, grad_y = gradients(found, (x, y), upstream)
        assert torch.equal(grad_x, upstream)
        assert_rounded(grad_y, upstream * factor)
        assert grad_y.dtype == torch.bfloat16


@pytest.mark.parametrize("D", [1, 21, 64, 131])
def test_layer_norm(instruction_sets: Iterable[str], D: int) -> None:
    torch.manual_seed(0)
    x = (7 * torch.randn(5, 13, D) + 2).requires_grad_()
    weight, bias, upstream = random(D, dtype=torch.float32), random(D, dtype=torch.float32), random(5, 13, D).detach()
    exact = F.layer_norm(x.double(), (D,), weight.double(), bias.double(), 1e-5)
    expected = gradients(exact, (x, weight, bias), upstream)
    for _ in instruction_sets:
        found = fused.layer_norm(x, weight, bias, 1e-5)
        assert_rounded(found, exact)
        for our, their in zip(gradients(found, (x, weight, bias), upstream), expected, strict=True):
            torch.testing.assert_close(our, their, rtol=1e-4, atol=1e-4)


def with_and_without(
    monkeypatch: pytest.MonkeyPatch, compute: Callable[[], list[Tensor]]
) -> Iterable[tuple[Tensor, Tensor]]:
    """The results with the native library, and without it."""
    torch.manual_seed(0)
    ours = compute()
    monkeypatch.setattr(fused, "_library", lambda: None)
    torch.manual_seed(0)
    return zip(ours, compute(), strict=True)


needs_bf16 = pytest.mark.skipif(not machine.bf16_works(), reason="a bf16 matmul does not work on this CPU")


@needs_bf16
def test_a_layer_trains_alike_without_the_native_library(native: object, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    attention, around, x = SelfAttention(28, 4), PreNorm(28, 0.3), random(5, 13, 28, dtype=torch.float32)
    mask = padding_mask(torch.ones(5, 13).tril_(9), 0)
    used: list[str] = []
    for name in ("attention", "add_dropout", "layer_norm"):
        original = getattr(fused, name)
        monkeypatch.setattr(fused, name, lambda *a, _f=original, _n=name, **k: used.append(_n) or _f(*a, **k))

    def compute() -> list[Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = around(x, lambda x: attention(x, mask=mask))
        inputs = (x, *attention.parameters(), *around.parameters())
        return [y, *torch.autograd.grad(y.square().sum(), inputs)]

    for ours, theirs in with_and_without(monkeypatch, compute):
        assert ours.dtype == theirs.dtype == torch.float32
        assert (ours - theirs).norm() < 0.02 * theirs.norm() + 1e-2
    assert used == ["layer_norm", "attention", "add_dropout"]  # once: not without the library


@needs_bf16
def test_the_loss_is_the_same_without_the_native_library(native: object, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    hidden, weight = random(521, 13, dtype=torch.float32), random(37, 13, dtype=torch.float32)
    target = torch.randint(37, (521,))

    def compute() -> list[Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = smoothed_cross_entropy(hidden, weight, target, 0.1)
        return [loss, *torch.autograd.grad(loss, (hidden, weight))]

    for ours, theirs in with_and_without(monkeypatch, compute):
        assert (ours - theirs).norm() < 0.005 * theirs.norm()


def test_fp32_does_not_use_the_native_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "available", lambda: pytest.fail("the native library was asked for"))
    torch.manual_seed(1)
    attention, around, x = SelfAttention(28, 4), PreNorm(28, 0.3), random(5, 13, 28, dtype=torch.float32)
    y = around(x, lambda x: attention(x, mask=look_ahead_mask(13)))
    smoothed_cross_entropy(y.flatten(0, 1), torch.randn(37, 28), torch.randint(37, (65,)), 0.1).backward()
    assert Dropout(0.3)(y).dtype == torch.float32
