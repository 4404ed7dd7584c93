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
from tests.families import vit


@pytest.mark.parametrize("shape", [(16, 16), (8, 40), (40, 8)])
def test_orthogonalized_updates_have_singular_values_near_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(1)
    values = torch.linalg.svdvals(muon.orthogonalize(torch.randn(3, *shape)))
    assert values.min() > 0.6 and values.max() < 1.3


def test_an_update_equals_that_of_pytorch() -> None:
    torch.manual_seed(1)
    ours, theirs = torch.randn(12, 6), torch.nn.Parameter(torch.zeros(12, 6))
    theirs.data.copy_(ours)
    reference = torch.optim.Muon([theirs], lr=0.1, weight_decay=0.0)
    momentum = torch.zeros_like(ours)
    for _ in range(3):
        theirs.grad = torch.randn(12, 6)
        muon.update_([muon.Matrix(ours, theirs.grad, momentum, 1)], lr=0.1, dtype=torch.bfloat16)
        reference.step()
    torch.testing.assert_close(ours, theirs.data, atol=5e-3, rtol=0)  # both iterate in bf16


def test_every_projection_of_a_batch_is_orthogonalized_on_its_own() -> None:
    torch.manual_seed(1)
    gradients = [torch.randn(12, 6), 3 * torch.randn(6, 6)]
    together, single = [torch.zeros_like(gradient) for gradient in gradients], torch.zeros(18, 6)
    batch = [
        muon.Matrix(weight, gradient, torch.zeros_like(gradient), parts)
        for weight, gradient, parts in zip(together, gradients, (2, 1), strict=True)
    ]
    muon.update_(batch, lr=1.0, dtype=torch.float32)
    for weight, gradient in zip(single.split(6), torch.cat(gradients).split(6), strict=True):
        muon.update_([muon.Matrix(weight, gradient, torch.zeros(6, 6), 1)], lr=1.0, dtype=torch.float32)
    torch.testing.assert_close(torch.cat(together), single)


def test_batches_have_one_shape_and_are_small() -> None:
    def matrix(rows: int, columns: int, parts: int = 1) -> muon.Matrix:
        return muon.Matrix(*torch.zeros(3, rows, columns), parts)

    small = [matrix(12, 6, 2), matrix(7, 6), *(matrix(6, 6) for _ in range(4))]
    large = [matrix(1024, 512) for _ in range(3)]
    found = muon.batches([*small, *large], count=2)
    assert [[len(batch), batch[0].part_shape] for batch in found] == [
        [3, (6, 6)], [2, (6, 6)], [1, (7, 6)], [2, (1024, 512)], [1, (1024, 512)],
    ]  # fmt: skip
    assert all(len({each.part_shape for each in batch}) == 1 for batch in found)


def test_adam_updates_embeddings_vectors_and_the_output_layer() -> None:
    model = Transformer(TransformerSettings(layers=1, d_model=8, heads=2, d_ff=16, dropout=0.0), 20, pad=0)
    names = muon.matrices(model)
    assert names["encoder.0.self_attention.query_key_value.weight"] == 3
    assert names["decoder.0.cross_attention.key_value.weight"] == 2
    others = {name for name, _ in model.named_parameters()} - set(names)
    assert {name.rsplit(".", 1)[1] for name in others} == {"weight_VD", "weight", "bias"}
    assert all("norm" in name for name in others if name.endswith(".weight"))


def test_adam_updates_the_projection_of_image_patches() -> None:
    names = muon.matrices(vit())
    assert "encoder.encoder.0.self_attention.query_key_value.weight" in names
    assert not any("embedding" in name for name in names)


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
