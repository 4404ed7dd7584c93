"""Attention (§3.2), its masks, and the attention of recurrent decoders."""

from __future__ import annotations

from typing import Any

import numpy as np

from glassformer.errors import Message
from glassformer.reference.layers import multiply_add
from glassformer.reference.operation import ALL, Array, Coordinates, Entry, Index, Operation


def heads_of(x: Array, weight: Array, bias: Array, heads: int) -> Array:
    rows = x @ weight.T + bias
    return rows.reshape(len(x), heads, -1).swapaxes(0, 1)


def _heads_entry(index: Coordinates, x: Array, weight: Array, bias: Array, heads: int) -> Entry:
    head, row, column = index
    output = head * (len(weight) // heads) + column
    picks: dict[str, Index] = {"x": (row, ALL), "weight": (output, ALL), "bias": (output,)}
    return Entry("Σ x·weight + bias", picks, compute=multiply_add)


query = Operation("x·W_Q + b_Q, split into heads", heads_of, _heads_entry, symbols={"weight": "W_Q", "bias": "b_Q"})
key = Operation("x·W_K + b_K, split into heads", heads_of, _heads_entry, symbols={"weight": "W_K", "bias": "b_K"})
value = Operation("x·W_V + b_V, split into heads", heads_of, _heads_entry, symbols={"weight": "W_V", "bias": "b_V"})


def rotated(x: Array, rotation: Array) -> Array:
    even, odd, sine, cosine = x[..., 0::2], x[..., 1::2], rotation[:, 0::2], rotation[:, 1::2]
    return np.stack([even * cosine - odd * sine, even * sine + odd * cosine], axis=-1).reshape(x.shape)


def _rotated_entry(index: Coordinates, x: Array, rotation: Array) -> Entry:
    head, row, column = index
    pair = slice(column - column % 2, column - column % 2 + 2)
    formula = "x[0]·sin + x[1]·cos" if column % 2 else "x[0]·cos − x[1]·sin"
    return Entry(formula, {"x": (head, row, pair), "rotation": (row, pair)}, within=(0, 0, column % 2))


rotate = Operation("pairs (2i, 2i+1), rotated by the angle pos / 10000^(2i/d_k)", rotated, _rotated_entry)


# ------------------------------------------------------------------------------------------ scores


def products(query: Array, key: Array) -> Array:
    return query @ key.swapaxes(-1, -2)


def products_so_far(query: Array, key: Array) -> Array:
    scores = query @ key.swapaxes(-1, -2)
    return np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)


def _products_entry(index: Coordinates, query: Array, key: Array) -> Entry:
    head, row, column = index
    return Entry("Σ query·key", {"query": (head, row), "key": (head, column)}, compute=products)


def _products_so_far_entry(index: Coordinates, query: Array, key: Array) -> Entry:
    _, row, column = index
    if column > row:
        return Entry("−∞: not written yet", {}, compute=lambda: -np.inf)
    return _products_entry(index, query, key)


dot_products_so_far = Operation(
    "Q·Kᵀ for the keys written so far, −∞ for the others", products_so_far, _products_so_far_entry
)
dot_products = Operation("Q·Kᵀ", products, _products_entry, so_far=dot_products_so_far)


def one_head_products(query: Array, key: Array) -> Array:
    return (query @ key.T)[None]


def _one_head_products_entry(index: Coordinates, query: Array, key: Array) -> Entry:
    _, row, column = index
    return Entry("Σ query·key", {"query": (row,), "key": (column,)})


def additive_scores(query: Array, key: Array, v: Array) -> Array:
    return (np.tanh(query[:, None] + key[None]) @ v)[None]


def _additive_entry(index: Coordinates, query: Array, key: Array, v: Array) -> Entry:
    _, row, column = index
    return Entry("Σ tanh(query + key)·v", {"query": (row,), "key": (column,), "v": (ALL,)})


hidden_products = Operation("Q·Hᵀ, H being the hidden states", one_head_products, _one_head_products_entry)
luong_scores = Operation("s_i·key_j", one_head_products, _one_head_products_entry)
bahdanau_scores = Operation("v·tanh(W·s_{i−1} + U·h_j)", additive_scores, _additive_entry)


# ------------------------------------------------------------------------------------------ masks (§3.2.3)


def look_ahead(length: int) -> Array:
    return np.triu(np.full((length, length), -np.inf, dtype=np.float32), 1)


def _look_ahead_entry(index: Coordinates, length: int) -> Entry:
    row, column = index
    if column > row:
        return Entry("−∞: after its own position", {}, compute=lambda: -np.inf)
    return Entry("0: up to its own position", {}, compute=lambda: 0.0)


def padding(tokens: Array, pad: int) -> Array:
    return np.where(tokens == pad, -np.inf, 0).astype(np.float32)[None, None]


def _padding_entry(index: Coordinates, tokens: Array, pad: int) -> Entry:
    formula = Message("−∞ if the token is {pad} (padding), else 0", pad=pad)
    return Entry(formula, {"tokens": (index[-1],)})


def question_only(tokens: Array, eos: int) -> Array:
    asked = np.cumsum(tokens == eos) == 0
    asked[0] = False
    return np.where(asked, 0, -np.inf)[None, None]


def _question_entry(index: Coordinates, tokens: Array, eos: int) -> Entry:
    formula = Message("0 after the first token and before the first {eos}, else −∞", eos=eos)
    return Entry(formula, {"tokens": (ALL,)}, within=index)


look_ahead_mask = Operation("0 up to a token's own position, −∞ after it", look_ahead, _look_ahead_entry, batched=False)
padding_mask = Operation("−∞ at padding, 0 elsewhere", padding, _padding_entry)
question_mask = Operation("0 for the tokens of the question, −∞ for the others", question_only, _question_entry)


# ------------------------------------------------------------------------------------------ weights and outputs


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _softmax_entry(index: Coordinates, scores: Array) -> Entry:
    *row, column = index
    within = (0,) * len(row) + (column,)
    return Entry(f"exp(scores[{column}]) / Σ exp(scores)", {"scores": (*row, ALL)}, within=within)


attention_weights = Operation("softmax of each row of the scores", softmax, _softmax_entry, unwritten=0.0)


def weighted_sum(weights: Array, value: Array) -> Array:
    return weights @ value


def _weighted_sum_entry(index: Coordinates, weights: Array, value: Array) -> Entry:
    head, row, column = index
    of_value: Index = (head, ALL, column) if value.ndim == 3 else (ALL, column)
    return Entry("Σ weights·value", {"weights": (head, row, ALL), "value": of_value})


head_output = Operation("weights·V", weighted_sum, _weighted_sum_entry)
context_vector = Operation("Σ_j weight_ij·h_j", weighted_sum, _weighted_sum_entry)


def concat_heads(head_output: Array, weight: Array, bias: Array) -> Array:
    merged = np.concatenate(list(head_output), axis=-1)
    return merged @ weight.T + bias


def _concat_heads_entry(index: Coordinates, **operands: Any) -> Entry:
    row, column = index
    picks: dict[str, Index] = {"head_output": (ALL, row), "weight": (column, ALL), "bias": (column,)}
    return Entry("Σ head_output·weight + bias", picks)


attention_output = Operation(
    "Concat(head_1, …, head_h)·W_O + b_O", concat_heads, _concat_heads_entry, symbols={"weight": "W_O", "bias": "b_O"}
)


def tanh_of_both(context: Array, state: Array, weight: Array) -> Array:
    return np.tanh(np.concatenate([context[0], state], axis=-1) @ weight.T)


def _attentional_entry(index: Coordinates, **operands: Array) -> Entry:
    row, column = index
    picks: dict[str, Index] = {"context": (0, row), "state": (row,), "weight": (column, ALL)}
    return Entry("tanh(Σ [context; state]·weight)", picks)


attentional_state = Operation("tanh(W·[context; s_i])", tanh_of_both, _attentional_entry)
