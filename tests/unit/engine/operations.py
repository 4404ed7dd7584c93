"""Single operations of the native library on NumPy arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from glassformer.engine.library import check

Array = np.ndarray[Any, np.dtype[np.float32]]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def matmul(native: ctypes.CDLL, x: Array, weight: Array, bias: Array | None, precision: int) -> Array:
    """x·Wᵀ + b"""
    x, weight = np.ascontiguousarray(x), np.ascontiguousarray(weight)
    (rows, inputs), outputs = x.shape, len(weight)
    out = np.full((rows, outputs), np.nan, np.float32)
    bias_at = None if bias is None else bias.ctypes.data
    check(
        native.gf_test_matmul(
            x.ctypes.data, rows, inputs, weight.ctypes.data, bias_at, outputs, precision, out.ctypes.data
        )
    )
    return out


def layer_norm(native: ctypes.CDLL, x: Array, weight: Array, bias: Array, epsilon: float) -> Array:
    x = np.ascontiguousarray(x)
    out = np.full_like(x, np.nan)
    check(
        native.gf_test_layer_norm(
            x.ctypes.data, *x.shape, weight.ctypes.data, bias.ctypes.data, epsilon, out.ctypes.data
        )
    )
    return out


def attention(native: ctypes.CDLL, query: Array, keys: Array, values: Array, rows: list[int] | None) -> Array:
    """One query with one head; it attends to `rows`, or to all."""
    length, out = len(keys) if rows is None else len(rows), np.full_like(query, np.nan)
    chosen = None if rows is None else (ctypes.c_int32 * length)(*rows)
    check(
        native.gf_test_attention(
            query.ctypes.data, keys.ctypes.data, values.ctypes.data, chosen, length, len(query), out.ctypes.data
        )
    )
    return out


def activation(native: ctypes.CDLL, which: int, x: Array) -> Array:
    x = x.copy()
    check(native.gf_test_activation(which, x.ctypes.data, x.size))
    return x


def log_sum_exp(native: ctypes.CDLL, x: Array) -> float:
    out = np.empty(1, np.float32)
    check(native.gf_test_log_sum_exp(x.ctypes.data, x.size, out.ctypes.data))
    return float(out[0])


def extreme(rows: int, outputs: int, inputs: int) -> tuple[Array, Array]:
    """Activations and weights that are ±127 everywhere once quantized; the first rows have one sign only."""
    random = np.random.default_rng(1)
    x, weight = (random.choice([-127, 127], (n, inputs)).astype(np.float32) for n in (rows, outputs))
    x[0], weight[0] = 127, 127
    if outputs > 1:
        weight[1] = -127
    if rows > 1:
        x[1] = -127
    return x, weight
