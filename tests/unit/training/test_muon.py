"""Muon compared with PyTorch's, and which weights it updates."""

from __future__ import annotations

import copy

import pytest
import torch

from glassformer.models.transformer import Transformer
from glassformer.nn.linear import Linear
from glassformer.settings import TransformerSettings
from glassformer.training import muon
from glassformer.training.optim import FlatOptimizer


@pytest.mark.parametrize("shape", [(16, 16), (8, 40), (40, 8)])
def test_orthogonalized_updates_have_singular_values_near_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(1)
    values = torch.linalg.svdvals(muon.orthogonalize(torch.randn(shape)))
    assert values.min() > 0.6 and values.max() < 1.3


def test_an_update_equals_that_of_pytorch() -> None:
    torch.manual_seed(1)
    ours, theirs = torch.randn(12, 6), torch.nn.Parameter(torch.zeros(12, 6))
    theirs.data.copy_(ours)
    reference = torch.optim.Muon([theirs], lr=0.1, weight_decay=0.0)
    momentum = torch.zeros_like(ours)
    for _ in range(3):
        theirs.grad = torch.randn(12, 6)
        muon.update_(ours, theirs.grad, momentum, 1, lr=0.1, dtype=torch.bfloat16)
        reference.step()
    torch.testing.assert_close(ours, theirs.data, atol=5e-3, rtol=0)  # both iterate in bf16


def test_packed_projections_are_orthogonalized_one_by_one() -> None:
    torch.manual_seed(1)
    gradient = torch.randn(12, 6)
    packed, single = torch.zeros(12, 6), torch.zeros(12, 6)
    muon.update_(packed, gradient, torch.zeros(12, 6), 2, lr=1.0, dtype=torch.float32)
    for part, grad in zip(single.chunk(2), gradient.chunk(2), strict=True):
        muon.update_(part, grad, torch.zeros(6, 6), 1, lr=1.0, dtype=torch.float32)
    torch.testing.assert_close(packed, single)


def test_adam_updates_embeddings_vectors_and_the_output_layer() -> None:
    model = Transformer(TransformerSettings(layers=1, d_model=8, heads=2, d_ff=16, dropout=0.0), 20, pad=0)
    names = muon.matrices(model)
    assert names["encoder.0.self_attention.query_key_value.weight"] == 3
    assert names["decoder.0.cross_attention.key_value.weight"] == 2
    others = {name for name, _ in model.named_parameters()} - set(names)
    assert {name.rsplit(".", 1)[1] for name in others} == {"weight_VD", "weight", "bias"}
    assert all("norm" in name for name in others if name.endswith(".weight"))


def test_a_restored_state_gives_the_same_updates() -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(Linear(5, 7), torch.nn.Tanh(), Linear(7, 3))
    x = torch.randn(3, 5)

    def step(model: torch.nn.Module, optimizer: FlatOptimizer) -> None:
        model(x).pow(2).sum().backward()
        optimizer.step(lr=0.05, count=3, clip=1.0)

    optimizer = FlatOptimizer(model, matrix_lr_ratio=0.5)
    before = model[0].weight.detach().clone()
    step(model, optimizer)
    assert not model[0].weight.equal(before)
    twin = copy.deepcopy(model)
    restored = FlatOptimizer(twin, matrix_lr_ratio=0.5)
    restored.load({name: tensor.clone() for name, tensor in optimizer.state().items()})
    step(model, optimizer)
    step(twin, restored)
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert a.equal(b)
