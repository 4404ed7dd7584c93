"""Attention of recurrent decoders compared with direct transcriptions of the papers' formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.nn.alignment import AdditiveAttention, AttentionalState, DotProductAttention, GeneralAttention
from glassformer.nn.masks import Mask
from glassformer.nn.probe import NO_PROBE, Probe, Recorder

B, Q, S, D = 2, 3, 5, 7
KINDS = {"additive": lambda: AdditiveAttention(D), "dot": DotProductAttention, "general": lambda: GeneralAttention(D)}
SCORES = {"additive": "energies", "dot": "scores", "general": "scores"}  # the name of e_ij in a trace


def energy(kind: str, attention: object, s_D: Tensor, h_D: Tensor) -> float:
    if kind == "additive":  # v·tanh(W·s + U·h)
        w, u, v = attention.query.weight, attention.key.weight, attention.score_D
        return sum(
            float(v[k]) * math.tanh(sum(float(w[k, j] * s_D[j] + u[k, j] * h_D[j]) for j in range(D))) for k in range(D)
        )
    if kind == "general":  # s·W·h
        w = attention.key.weight
        return sum(float(s_D[k] * w[k, j] * h_D[j]) for k in range(D) for j in range(D))
    return sum(float(s_D[j] * h_D[j]) for j in range(D))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("probe", [NO_PROBE, Recorder()], ids=["unseen", "seen"])
@torch.no_grad()
def test_energies_weights_and_context_by_the_formulas(kind: str, masked: bool, probe: Probe) -> None:
    torch.manual_seed(1)
    attention, state_BQD, memory_BSD = KINDS[kind](), torch.randn(B, Q, D), torch.randn(B, S, D)
    lengths = [S, 2] if masked else [S, S]
    mask = None
    if masked:
        mask = Mask(torch.zeros(B, 1, 1, S))
        mask.values[1, ..., 2:] = -math.inf
    context_BQD = attention(state_BQD, attention.keys(memory_BSD), memory_BSD, mask, probe)
    for b in range(B):
        for q in range(Q):
            e = [energy(kind, attention, state_BQD[b, q], memory_BSD[b, j]) for j in range(lengths[b])]
            total = sum(math.exp(x) for x in e)
            weights = [math.exp(x) / total for x in e]
            expected_D = sum(weight * memory_BSD[b, j] for j, weight in enumerate(weights))
            torch.testing.assert_close(context_BQD[b, q], expected_D, atol=1e-5, rtol=1e-4)
            if isinstance(probe, Recorder):
                found = probe.tensors["weights"][b, 0, q]
                torch.testing.assert_close(found[: lengths[b]], torch.tensor(weights), atol=1e-5, rtol=1e-4)
                assert (found[lengths[b] :] == 0).all()
                scores = probe.tensors[SCORES[kind]][b, 0, q, : lengths[b]]
                torch.testing.assert_close(scores, torch.tensor(e), atol=1e-5, rtol=1e-4)


def test_the_probe_sees_every_step_of_the_attention(kind: str) -> None:
    attention, seen, memory_BSD = KINDS[kind](), Recorder(), torch.randn(B, S, D)
    attention(torch.randn(B, Q, D), attention.keys(memory_BSD), memory_BSD, Mask(torch.zeros(B, 1, 1, S)), seen)
    assert set(seen.tensors) - {"query"} == {SCORES[kind], "mask", "masked_scores", "weights", "context"}
    assert seen.tensors["weights"].shape == (B, 1, Q, S)
    assert seen.tensors["context"].shape == (B, 1, Q, D)


def test_gradients_are_the_same_with_and_without_a_probe(kind: str) -> None:
    torch.manual_seed(1)
    attention, upstream_BQD, found = KINDS[kind](), torch.randn(B, Q, D), []
    for probe in (NO_PROBE, Recorder()):
        state_BQD, memory_BSD = (x.requires_grad_() for x in _drawn())
        attention.zero_grad()
        attention(state_BQD, attention.keys(memory_BSD), memory_BSD, None, probe).backward(upstream_BQD)
        found.append([state_BQD.grad, memory_BSD.grad, *(p.grad.clone() for p in attention.parameters())])
    for unseen, seen in zip(*found, strict=True):
        assert unseen.abs().max() > 0
        torch.testing.assert_close(unseen, seen, atol=1e-5, rtol=1e-4)


def _drawn() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(3)
    return torch.randn(B, Q, D, generator=random), torch.randn(B, S, D, generator=random)


def test_a_probe_may_replace_the_weights(kind: str) -> None:
    class First(Probe):
        def wants(self, name: str) -> bool:
            return name == "weights"

        def __call__(self, name: str, tensor: Tensor, operation: Any = None, *operands: Any) -> Tensor:
            return torch.eye(S)[0].expand(tensor.shape) if name == "weights" else tensor

    attention, memory_BSD = KINDS[kind](), torch.randn(B, S, D)
    context_BQD = attention(torch.randn(B, Q, D), attention.keys(memory_BSD), memory_BSD, None, First())
    torch.testing.assert_close(context_BQD, memory_BSD[:, :1].expand(B, Q, D))


@torch.no_grad()
def test_the_attentional_state() -> None:
    torch.manual_seed(1)
    combine, context_BTD, state_BTD = AttentionalState(D), torch.randn(B, Q, D), torch.randn(B, Q, D)
    w_c, w_s = combine.combine.weight.split(D, dim=1)
    expected_BTD = torch.tanh(context_BTD @ w_c.T + state_BTD @ w_s.T)
    torch.testing.assert_close(combine(context_BTD, state_BTD), expected_BTD)
