"""The backward pass: the gradient of the loss with respect to the logits, and through one multi-head attention.

`gradient` is always the gradient of the loss with respect to the result of the operation in the forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from glassformer.reference.attention import rotated, softmax
from glassformer.reference.embeddings import given
from glassformer.reference.layers import same, scale_scores
from glassformer.reference.operation import ALL, Array, Coordinates, Entry, Index, Operation

autograd = Operation("computed by PyTorch (autograd)", given, lambda index, values: Entry("", {}))

# ------------------------------------------------------------------------------------------ cross-entropy


def probabilities_minus_target(logits: Array, target: Array, share: float) -> Array:
    gradient = softmax(logits)
    rows = np.arange(len(target))[target >= 0]
    gradient[rows, target[rows]] -= 1
    gradient[target < 0] = 0
    return gradient * np.float32(share)


def _logits_entry(index: Coordinates, logits: Array, target: Array, share: float) -> Entry:
    row, column = index
    if target[row] < 0:
        return Entry("0: no target at this position", {}, compute=lambda: 0.0)
    hit = " − 1" if column == int(target[row]) else ""
    formula = f"(exp(logits[{column}]) / Σ exp(logits){hit}) · {share:.4g}"
    picks: dict[str, Index] = {"logits": (row, ALL), "target": (row,)}
    return Entry(
        formula, picks, compute=lambda logits, target: probabilities_minus_target(logits, target, share)[0, column]
    )


logits_gradient = Operation(
    "(softmax(logits) − one-hot target) / number of targets", probabilities_minus_target, _logits_entry
)

# ------------------------------------------------------------------------------------------ one head


def split_output_gradient(gradient: Array, weight: Array, heads: int) -> Array:
    return (gradient @ weight).reshape(len(gradient), heads, -1).swapaxes(0, 1)


def _head_output_entry(index: Coordinates, gradient: Array, weight: Array, heads: int) -> Entry:
    head, row, column = index
    at = head * (weight.shape[1] // heads) + column
    return Entry(
        "Σ gradient·weight",
        {"gradient": (row, ALL), "weight": (ALL, at)},
        compute=lambda gradient, weight: gradient @ weight,
    )


def times_value(gradient: Array, value: Array) -> Array:
    return gradient @ value.swapaxes(-1, -2)


def weights_times(weights: Array, gradient: Array) -> Array:
    return weights.swapaxes(-1, -2) @ gradient


def through_softmax(weights: Array, gradient: Array) -> Array:
    return weights * (gradient - (weights * gradient).sum(axis=-1, keepdims=True))


def times_key(gradient: Array, key: Array) -> Array:
    return gradient @ key


def times_query(gradient: Array, query: Array) -> Array:
    return gradient.swapaxes(-1, -2) @ query


def rotated_back(gradient: Array, rotation: Array) -> Array:
    back = rotation.copy()
    back[:, 0::2] *= -1  # the sine of the opposite angle
    return rotated(gradient, back)


def _rotated_back_entry(index: Coordinates, gradient: Array, rotation: Array) -> Entry:
    head, row, column = index
    pair = slice(column - column % 2, column - column % 2 + 2)
    formula = "gradient[1]·cos − gradient[0]·sin" if column % 2 else "gradient[0]·cos + gradient[1]·sin"
    return Entry(formula, {"gradient": (head, row, pair), "rotation": (row, pair)}, within=(0, 0, column % 2))


def _softmax_entry(index: Coordinates, weights: Array, gradient: Array) -> Entry:
    head, row, column = index
    formula = f"weights[{column}] · (gradient[{column}] − Σ weights·gradient)"
    picks: dict[str, Index] = {"weights": (head, row, ALL), "gradient": (head, row, ALL)}
    return Entry(formula, picks, within=(0, 0, column))


def _product_entry(formula: str, picks: Callable[[int, int, int], dict[str, Index]]) -> Callable[..., Entry]:
    """Return the entry of a matrix product; `picks` selects the operand entries for a head, a row and a column."""
    return lambda index, **operands: Entry(formula, picks(*index))


head_output_gradient = Operation(
    "gradient of the attention output · W_Oᵀ, split into heads", split_output_gradient, _head_output_entry
)
weights_gradient = Operation(
    "gradient of the head output · Vᵀ",
    times_value,
    _product_entry("Σ gradient·value", lambda h, r, c: {"gradient": (h, r), "value": (h, c)}),
)
value_gradient = Operation(
    "Aᵀ · gradient of the head output, A being the attention weights",
    weights_times,
    _product_entry("Σ weights·gradient", lambda h, r, c: {"weights": (h, ALL, r), "gradient": (h, ALL, c)}),
)
softmax_gradient = Operation("A ⊙ (dA − Σ A⊙dA), row by row", through_softmax, _softmax_entry)
mask_gradient = replace(same, formula="the same: the mask is a constant")
scaling_gradient = replace(scale_scores, formula="gradient of the scaled scores / √d_k")
query_gradient = Operation(
    "gradient of the scores · K",
    times_key,
    _product_entry("Σ gradient·key", lambda h, r, c: {"gradient": (h, r), "key": (h, ALL, c)}),
)
key_gradient = Operation(
    "(gradient of the scores)ᵀ · Q",
    times_query,
    _product_entry("Σ gradient·query", lambda h, r, c: {"gradient": (h, ALL, r), "query": (h, ALL, c)}),
)
rotation_gradient = Operation(
    "gradient of the rotated vector, rotated back by the same angle", rotated_back, _rotated_back_entry
)
