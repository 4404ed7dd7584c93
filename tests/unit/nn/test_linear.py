"""The matmul, plain and packed."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.nn.linear import Linear, pack_weights


@pytest.mark.parametrize("rows", [1, 7, 29])
def test_packed_fp32_is_the_plain_product(rows: int) -> None:
    linear, x = Linear(37, 53), torch.randn(rows, 3, 37)
    linear.bias.data.normal_()
    with torch.inference_mode():
        expected = x @ linear.weight.mT + linear.bias
        linear.pack("fp32")
        torch.testing.assert_close(linear(x), expected, atol=1e-5, rtol=1e-5)


def test_packed_int8_is_within_the_grid_of_its_integers() -> None:
    linear, x = Linear(64, 48), torch.randn(19, 64)
    linear.bias.data.normal_()
    with torch.inference_mode():
        expected = linear(x)
        linear.pack("int8")
        error = (linear(x) - expected).norm() / expected.norm()
    assert 0 < error < 0.02


def test_each_part_has_the_variance_of_its_own_shape() -> None:
    """Xavier of a D×D block is wider than that of the 3D×D matrix it lies in."""
    linear = Linear(101, 101, parts=3)
    bound = math.sqrt(6 / (101 + 101))
    for block in linear.weight.chunk(3):
        assert block.abs().max().item() == pytest.approx(bound, rel=0.01)
    assert linear.bias.abs().sum() == 0


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("int8", 0.5)])
def test_a_packed_model_computes_the_same(tiny_model, precision: str, tolerance: float) -> None:
    model = tiny_model().eval()
    source_BS, target_BT = torch.randint(3, 50, (5, 7)), torch.randint(3, 50, (5, 6))
    with torch.inference_mode():
        expected = model(source_BS, target_BT)
        pack_weights(model, precision)
        found = model(source_BS, target_BT)
    for module in model.modules():
        if isinstance(module, Linear):
            assert module.weight is None if precision == "int8" else module.weight.mT.is_contiguous()
    torch.testing.assert_close(found, expected, atol=tolerance * expected.std().item(), rtol=0)
