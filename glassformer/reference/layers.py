"""Linear layers, feed-forward networks, normalization, residual connections, pooling."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from glassformer.reference.operation import ALL, Array, Coordinates, Entry, Index, Operation


def identity(x: Array) -> Array:
    return x


def _same_entry(index: Coordinates, **operands: Any) -> Entry:
    return Entry("x", {"x": index})


same = Operation("x", identity, _same_entry)


# ------------------------------------------------------------------------------------------ linear layers


def multiply_add(x: Array, weight: Array, bias: Array | None = None) -> Array:
    product = x @ weight.T
    return product if bias is None else product + bias


def _linear_entry(index: Coordinates, x: Array, weight: Array, bias: Array | None = None, **rest: Any) -> Entry:
    *row, column = index
    picks: dict[str, Index] = {"x": tuple(row), "weight": (column,)}
    if bias is None:
        return Entry("Σ x·weight", picks)
    return Entry("Σ x·weight + bias", picks | {"bias": (column,)})


linear = Operation("x·W + b", multiply_add, _linear_entry, symbols={"weight": "W", "bias": "b"})
projection = replace(linear, formula="x·W")
query_projection = replace(linear, formula="h·W_Q + b_Q", symbols={"weight": "W_Q", "bias": "b_Q"})
output_projection = replace(linear, formula="hidden·Eᵀ, E being the output embeddings", symbols={"weight": "Eᵀ"})
biased_output_projection = replace(
    linear, formula="hidden·Eᵀ + b, E being the output embeddings", symbols={"weight": "Eᵀ", "bias": "b"}
)
label_projection = replace(linear, formula="hidden·W + b")
feed_forward_output = replace(linear, formula="activations·W_2 + b_2", symbols={"weight": "W_2", "bias": "b_2"})


# ------------------------------------------------------------------------------------------ activations


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def relu_linear(x: Array, weight: Array, bias: Array) -> Array:
    return np.maximum(0, x @ weight.T + bias)


def gelu_linear(x: Array, weight: Array, bias: Array) -> Array:
    from math import erf  # NumPy has none

    z = x @ weight.T + bias
    return z * (1 + np.vectorize(erf)(z / np.sqrt(2))) / 2


def gelu_tanh_linear(x: Array, weight: Array, bias: Array) -> Array:
    z = x @ weight.T + bias
    return z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) / 2


def swish_linear(x: Array, weight: Array, bias: Array) -> Array:
    z = x @ weight.T + bias
    return z * sigmoid(z)


def tanh_linear(x: Array, weight: Array, bias: Array) -> Array:
    return np.tanh(x @ weight.T + bias)


def _activated(formula: str) -> Callable[..., Entry]:
    """Return the entry of an activation after a linear layer; in the formula, `{}` is the sum."""

    def entry(index: Coordinates, **operands: Any) -> Entry:
        inner = _linear_entry(index, **operands)
        return Entry(formula.format(inner.formula), inner.picks)

    return entry


_FIRST_LINEAR = {"weight": "W_1", "bias": "b_1"}
relu = Operation("max(0, x·W_1 + b_1)", relu_linear, _activated("max(0, {})"), symbols=_FIRST_LINEAR)
gelu = Operation("z·Φ(z), z = x·W_1 + b_1", gelu_linear, _activated("z·Φ(z), z = {}"), symbols=_FIRST_LINEAR)
gelu_tanh = Operation(
    "z/2·(1 + tanh(√(2/π)·(z + 0.044715·z³))), z = x·W_1 + b_1",
    gelu_tanh_linear,
    _activated("z/2·(1 + tanh(√(2/π)·(z + 0.044715·z³))), z = {}"),
    symbols=_FIRST_LINEAR,
)
swish = Operation("z·σ(z), z = x·W_1 + b_1", swish_linear, _activated("z·σ(z), z = {}"), symbols=_FIRST_LINEAR)
pooler = Operation("tanh(pooled·W + b)", tanh_linear, _activated("tanh({})"), symbols=linear.symbols)

ACTIVATIONS = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "swish": swish}


# ------------------------------------------------------------------------------------------ Add & Norm


def sum_of(x: Array, y: Array, z: Array | None = None) -> Array:
    return x + y if z is None else x + y + z


def _sum_entry(index: Coordinates, **operands: Array | None) -> Entry:
    def at(shape: tuple[int, ...]) -> Index:  # an axis of length 1 is broadcast
        return tuple(0 if size == 1 else i for i, size in zip(index[-len(shape) :], shape, strict=True))

    present = {name: at(value.shape) for name, value in operands.items() if value is not None}
    return Entry(" + ".join(present), present)


add = Operation("x + y", sum_of, _sum_entry)
residual = replace(add, formula="x + sublayer(x)")
embedding_sum = replace(add, formula="token embedding + segment embedding + position embedding")
segment_sum = replace(add, formula="token embedding + segment embedding")


def row_mean(x: Array) -> Array:
    return x.mean(axis=-1, keepdims=True)


def row_deviation(x: Array, mean: Array, epsilon: float) -> Array:
    return np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + np.float32(epsilon))


def _mean_entry(index: Coordinates, x: Array) -> Entry:
    return Entry("Σ x / d", {"x": (*index[:-1], ALL)})


def _deviation_entry(index: Coordinates, x: Array, mean: Array, epsilon: float) -> Entry:
    return Entry("√(Σ (x − mean)² / d + ε)", {"x": (*index[:-1], ALL), "mean": index})


mean = Operation("mean of the row", row_mean, _mean_entry)
deviation = Operation("√(mean of (x − mean)² + ε)", row_deviation, _deviation_entry)


def root_of_variance(variance: Array, epsilon: float) -> Array:
    return np.sqrt(variance + np.float32(epsilon))


def _root_entry(index: Coordinates, variance: Array, epsilon: float) -> Entry:
    return Entry("√(variance + ε)", {"variance": index})


running_mean = replace(same, formula="mean of the dimension over the training batches", batched=False)
running_deviation = Operation(
    "√(variance of the dimension over the training batches + ε)", root_of_variance, _root_entry, batched=False
)


def normalized(x: Array, mean: Array, deviation: Array, weight: Array, bias: Array) -> Array:
    return (x - mean) / deviation * weight + bias


def _normalized_entry(index: Coordinates, x: Array, mean: Array, **rest: Array) -> Entry:
    column = index[-1]
    of_row: Index = (*index[:-1], 0) if mean.ndim == x.ndim else (column,)  # of a token, or of a dimension
    picks: dict[str, Index] = {"x": index, "mean": of_row, "deviation": of_row}
    return Entry("(x − mean) / deviation · weight + bias", picks | {"weight": (column,), "bias": (column,)})


normalize = Operation(
    "(x − mean) / deviation · γ + β", normalized, _normalized_entry, symbols={"weight": "γ", "bias": "β"}
)


# ------------------------------------------------------------------------------------------ pooling


def max_over_rows(x: Array) -> Array:
    return x.max(axis=0)


def mean_over_rows(x: Array) -> Array:
    return x.mean(axis=0)


def first_row(x: Array) -> Array:
    return x[0]


def last_row(x: Array) -> Array:
    return x[-1]


def unit_length(x: Array) -> Array:
    return x / np.sqrt((x * x).sum())


def _column_entry(formula: str) -> Callable[..., Entry]:
    return lambda index, x: Entry(formula, {"x": (ALL, *index)})


max_pool = Operation("maximum of each dimension over the tokens", max_over_rows, _column_entry("max(x)"))
mean_pool = Operation("mean of each dimension over the tokens", mean_over_rows, _column_entry("Σ x / n"))
first = Operation("hidden state of the first token", first_row, lambda index, x: Entry("x", {"x": (0, *index)}))
last = Operation("last hidden state", last_row, lambda index, x: Entry("x", {"x": (len(x) - 1, *index)}))
unit = Operation(
    "pooled / ‖pooled‖", unit_length, lambda index, x: Entry(f"x[{index[0]}] / √Σ x²", {"x": (ALL,)}, within=index)
)


# ------------------------------------------------------------------------------------------ side by side


def side_by_side(x: Array, y: Array, z: Array | None = None) -> Array:
    rows = [part.reshape(*x.shape[:-1], -1) for part in (x, y, z) if part is not None]
    return np.concatenate(rows, axis=-1)


def _side_by_side_entry(index: Coordinates, **operands: Array | None) -> Entry:
    *row, column = index
    for name, part in operands.items():
        if part is None:
            continue
        width = part.shape[-1]
        if column < width:
            head = (0,) * (part.ndim - len(index))  # an operand may have an axis for its one head
            return Entry(name, {name: (*head, *row, column)}, compute=lambda **picked: next(iter(picked.values())))
        column -= width
    raise IndexError(index)


concat = Operation("[x; y]", side_by_side, _side_by_side_entry)


def reversed_rows(x: Array) -> Array:
    return x[::-1].copy()


reverse = Operation(
    "x from its last row to its first",
    reversed_rows,
    lambda index, x: Entry("x", {"x": (len(x) - 1 - index[0], *index[1:])}),
)


# ------------------------------------------------------------------------------------------ fixed windows


def windows_of(x: Array, size: int) -> Array:
    padded = np.concatenate([np.zeros((size - 1, x.shape[1]), x.dtype), x])
    return np.stack([padded[i : i + size] for i in range(len(x))])


def _window_entry(index: Coordinates, x: Array, size: int) -> Entry:
    row, place, column = index
    read = row - size + 1 + place
    if read < 0:
        return Entry("0: before the first token", {}, compute=lambda: 0.0)
    return Entry("x", {"x": (read, column)}, compute=identity)


def tanh_of_window(x: Array, weight: Array, bias: Array) -> Array:
    return np.tanh(x.reshape(len(x), -1) @ weight.T + bias)


def _tanh_of_window_entry(index: Coordinates, **operands: Array) -> Entry:
    row, column = index
    return Entry("tanh(Σ x·weight + bias)", {"x": (row, ALL, ALL), "weight": (column, ALL), "bias": (column,)})


window = Operation(
    "embeddings of the last n tokens, zeros before the first", windows_of, _window_entry, position_axis=-3
)
window_hidden = Operation("tanh(H·[x_{t−n+1}; …; x_t] + d)", tanh_of_window, _tanh_of_window_entry)


# ------------------------------------------------------------------------------------------ scaling


def scaled(x: Array, factor: float) -> Array:
    return x * np.float32(factor)


def _scaled_entry(index: Coordinates, x: Array, factor: float) -> Entry:
    root, word = (factor**2, "·") if factor > 1 else (factor**-2, "/")
    number = f"√{root:.0f}" if math.isclose(root, round(root), rel_tol=1e-6) else f"{factor:g}"
    return Entry(f"x {word} {number}" if number.startswith("√") else f"x · {number}", {"x": index})


scale_embedding = Operation("token embedding · √d_model", scaled, _scaled_entry)
scale_scores = Operation("scores / √d_k", scaled, _scaled_entry)
