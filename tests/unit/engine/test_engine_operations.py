"""Every operation of the native engine against NumPy, for every instruction set."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from glassformer.engine.library import ACTIVATIONS, FP32, INT8
from glassformer.reference import attention as attention_ops
from glassformer.reference import layers as layer_ops
from tests.unit.engine.operations import (
    Array,
    activation,
    attention,
    extreme,
    layer_norm,
    log_sum_exp,
    matmul,
    normal,
)

# Rows, inputs and outputs: single ones, primes, whole panels of 16 outputs and their tails, more rows than a block.
SIZES = [(1, 1, 1), (2, 3, 17), (3, 64, 16), (5, 67, 129), (7, 128, 64), (13, 65, 83), (200, 31, 37), (197, 129, 211)]


def quantized(x: Array) -> tuple[Array, Array]:
    """Rows as integers from −127 to 127, and their scales."""
    largest = np.abs(x).max(axis=1, keepdims=True)
    return np.rint(x * (np.float32(127) / largest)), largest / np.float32(127)


def int8_product(x: Array, weight: Array, bias: Array) -> Any:
    (x_q, x_scale), (w_q, w_scale) = quantized(x), quantized(weight)
    return (x_q.astype(np.float64) @ w_q.T.astype(np.float64)) * (x_scale * w_scale.T) + bias


@pytest.mark.parametrize("rows, inputs, outputs", SIZES)
def test_matmul(instruction_sets: Iterable[str], native: ctypes.CDLL, rows: int, inputs: int, outputs: int) -> None:
    x, weight, bias = normal(rows, inputs), normal(outputs, inputs, seed=1), normal(outputs, seed=2)
    expected = layer_ops.multiply_add(*(a.astype(np.float64) for a in (x, weight, bias)))
    uneven, uneven_weight = x.copy(), weight.copy()  # every row has a scale of its own
    uneven[0] *= 1000
    uneven_weight[-1] *= 1000
    expected_int8 = int8_product(uneven, uneven_weight, bias)
    for name in instruction_sets:
        found = matmul(native, x, weight, bias, FP32)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-5, err_msg=name)
        found = matmul(native, x, weight, None, FP32)
        np.testing.assert_allclose(found, expected - bias, rtol=1e-5, atol=3e-5, err_msg=name)
        found = matmul(native, uneven, uneven_weight, bias, INT8)
        np.testing.assert_allclose(found, expected_int8, rtol=1e-6, atol=1e-5, err_msg=name)


def test_matmul_int8_with_rows_of_zeros_and_of_tiny_numbers(
    instruction_sets: Iterable[str], native: ctypes.CDLL
) -> None:
    """127 / largest overflows for the smallest floats."""
    x, weight, bias = normal(3, 67), normal(19, 67, seed=1), normal(19, seed=2)
    rest = [n for n in range(19) if n not in (3, 5)]
    expected = int8_product(x[2:], weight[rest], bias[rest])
    x[0], weight[3] = 0, 0
    x[1] *= np.float32(1e-39)
    weight[5] *= np.float32(1e-39)
    for name in instruction_sets:
        found = matmul(native, x, weight, bias, INT8)
        assert np.array_equal(found[0], bias), name
        np.testing.assert_allclose(found[1], bias, rtol=0, atol=1e-30, err_msg=name)
        np.testing.assert_allclose(found[2, [3, 5]], bias[[3, 5]], rtol=0, atol=1e-30, err_msg=name)
        np.testing.assert_allclose(found[2:][:, rest], expected, rtol=1e-6, atol=1e-5, err_msg=name)


def test_matmul_int8_marks_rows_that_are_not_finite(instruction_sets: Iterable[str], native: ctypes.CDLL) -> None:
    x, weight = normal(5, 67), normal(19, 67, seed=1)
    x[1, 66], x[3, 0] = np.nan, -np.inf
    for name in instruction_sets:
        found = matmul(native, x, weight, None, INT8)
        assert np.isnan(found[[1, 3]]).all() and np.isfinite(found[[0, 2, 4]]).all(), name


@pytest.mark.parametrize("kind", ["normal", "extreme"])
def test_matmul_int8_is_the_same_for_all_instruction_sets(
    instruction_sets: Iterable[str], native: ctypes.CDLL, kind: str
) -> None:
    def products() -> list[Array]:
        found = []
        for rows, inputs, outputs in SIZES:
            both = (
                extreme(rows, outputs, inputs) if kind == "extreme" else (normal(rows, inputs), normal(outputs, inputs))
            )
            found += [matmul(native, *both, bias, INT8) for bias in (normal(outputs, seed=2), None)]
        return found

    found = {name: products() for name in instruction_sets}
    assert "scalar" in found
    for name, of_set in found.items():
        assert all(map(np.array_equal, of_set, found["scalar"])), name


@pytest.mark.parametrize("precision", [FP32, INT8])
@pytest.mark.parametrize("rows, inputs, outputs", [(211, 67, 129), (7, 37, 83)])
def test_matmul_rows_do_not_depend_on_their_neighbours(
    instruction_sets: Iterable[str], native: ctypes.CDLL, precision: int, rows: int, inputs: int, outputs: int
) -> None:
    x, weight, bias = normal(rows, inputs), normal(outputs, inputs, seed=1), normal(outputs, seed=2)
    for name in instruction_sets:
        together = matmul(native, x, weight, bias, precision)
        for first in range(0, rows, 5):
            assert np.array_equal(matmul(native, x[first : first + 1], weight, bias, precision)[0], together[first]), (
                name
            )
        for few in (2, 3, 4, 5, 6, 17):
            assert np.array_equal(matmul(native, x[:few], weight, bias, precision), together[:few]), name


@pytest.mark.parametrize("width", [1, 7, 16, 37, 64, 257])
def test_layer_norm(instruction_sets: Iterable[str], native: ctypes.CDLL, width: int) -> None:
    x, weight, bias = 3 * normal(11, width) + 5, normal(width, seed=1), normal(width, seed=2)
    exact = x.astype(np.float64)
    mean = layer_ops.row_mean(exact)
    expected = layer_ops.normalized(exact, mean, layer_ops.row_deviation(exact, mean, 1e-2), weight, bias)
    for name in instruction_sets:
        found = layer_norm(native, x, weight, bias, 1e-2)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=name)
        for row in range(11):  # wherever it lies in memory
            assert np.array_equal(layer_norm(native, x[row : row + 1], weight, bias, 1e-2)[0], found[row]), name


@pytest.mark.parametrize("size", [64, 32, 16, 1, 7, 48, 129])
def test_attention_of_one_head(instruction_sets: Iterable[str], native: ctypes.CDLL, size: int) -> None:
    query = 3 * normal(size)

    def expected(keys: Array, values: Array) -> Any:
        scores = attention_ops.products(query[None].astype(np.float64), keys.astype(np.float64)) / math.sqrt(size)
        return attention_ops.weighted_sum(attention_ops.softmax(scores), values.astype(np.float64))[0]

    for name in instruction_sets:
        for length in (1, 16, 37):
            keys, values = normal(length, size, seed=1), normal(length, size, seed=2)
            some = [length - 1, *range(0, length, 3)]
            found = attention(native, query, keys, values, None)
            np.testing.assert_allclose(found, expected(keys, values), rtol=1e-5, atol=2e-6, err_msg=name)
            assert np.array_equal(attention(native, query, keys, values, list(range(length))), found), name
            found = attention(native, query, keys, values, some)
            np.testing.assert_allclose(found, expected(keys[some], values[some]), rtol=1e-5, atol=2e-6, err_msg=name)


def test_attention_with_scores_far_apart(instruction_sets: Iterable[str], native: ctypes.CDLL) -> None:
    """All weight on one key: nothing overflows, and nothing of the others is left."""
    keys, values = normal(19, 16), normal(19, 16, seed=1)
    keys[11] = 5
    for name in instruction_sets:
        found = attention(native, np.full(16, 1e4, np.float32), keys, values, None)
        np.testing.assert_allclose(found, values[11], rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("activated", ACTIVATIONS)
def test_activation(instruction_sets: Iterable[str], native: ctypes.CDLL, activated: str) -> None:
    which = ACTIVATIONS[activated]
    x = np.concatenate([4 * normal(1009), np.float32([0, -0.0, 30, -30, 1e4, -1e4, 1e30, -1e30])])
    operation = {
        "relu": layer_ops.relu_linear,
        "gelu": layer_ops.gelu_linear,
        "gelu_tanh": layer_ops.gelu_tanh_linear,
        "swish": layer_ops.swish_linear,
    }[activated]
    with np.errstate(over="ignore"):
        expected = operation(x[:, None].astype(np.float64), np.ones((1, 1)), np.zeros(1))[:, 0]
    for name in instruction_sets:
        found = activation(native, which, x)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6, err_msg=name)
        for start in range(40):  # in a whole vector or in the remainder of the loop
            assert np.array_equal(activation(native, which, x[start : start + 37]), found[start : start + 37]), name


@pytest.mark.parametrize("count", [1, 15, 16, 64, 997, 32003])
def test_log_sum_exp(instruction_sets: Iterable[str], native: ctypes.CDLL, count: int) -> None:
    x = 7 * normal(count) + 300
    expected = 300 + math.log(np.exp(x.astype(np.float64) - 300).sum())
    forbidden = x.copy()
    forbidden[1:] = -np.inf
    for name in instruction_sets:
        assert log_sum_exp(native, x) == pytest.approx(expected, abs=1e-4), name
        assert log_sum_exp(native, forbidden) == x[0], name
