"""The matmul, plain and packed."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from glassformer.nn.linear import Linear, pack_weights, quantize_rows


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


def saturating_product(x_NK: np.ndarray, weight_MK: np.ndarray) -> np.ndarray:
    """Model the int8 kernel of CPUs without VNNI: `vpmaddubsw` adds pairs of products in 16 bits with saturation."""
    products_NMK = x_NK[:, None].astype(np.int32) * weight_MK.astype(np.int32)
    pairs_NMK = products_NMK.reshape(len(x_NK), len(weight_MK), -1, 2).sum(axis=-1)
    return pairs_NMK.clip(-(2**15), 2**15 - 1).sum(axis=-1)


@pytest.mark.parametrize(("limit", "exact"), [(127, False), (64, True), (65, False)])
def test_a_saturating_kernel_is_exact_up_to_the_reduced_weight_limit(limit: int, exact: bool) -> None:
    signs_MK = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]]).repeat(1, 11)
    weight_MK = quantize_rows(signs_MK, limit=limit).int_repr().numpy()
    x_NK = np.array([[255] * 22, [0] * 22, [255, 0] * 11, [255, 254] * 11], dtype=np.uint8)
    true_NM = x_NK.astype(np.int32) @ weight_MK.astype(np.int32).T
    assert np.array_equal(saturating_product(x_NK, weight_MK), true_NM) is exact


# Weights and activations at the ends of their ranges: full-range weights lose half of these sums to saturation.
WORST_CASE = """
import torch
from glassformer.nn.linear import int8_product
x, weight = torch.rand(19, 62).round(), torch.ones(5, 62)
expected = x @ weight.mT
print(((int8_product(weight, None)(x) - expected).norm() / expected.norm()).item())
"""


def test_int8_is_exact_without_vnni() -> None:
    """FBGEMM reads this variable once per process. Where FBGEMM is not the engine, the variable has no effect."""
    env = os.environ | {"FBGEMM_ENABLE_INSTRUCTIONS": "AVX2"}
    child = subprocess.run([sys.executable, "-c", WORST_CASE], env=env, capture_output=True, text=True, check=True)
    assert float(child.stdout) < 1e-5


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
