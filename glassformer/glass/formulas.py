"""Every kind of named tensor: how it comes from its parents, in words and in NumPy.

This is the other half of the glass. A trace shows what the model computed; these few lines compute the same again,
from the tensors that it came from, without PyTorch and without the model's code. A test does so for every tensor of
every family. `parents.py` says which tensors and weights a formula is given.

Arrays are those of one sentence: T rows of D numbers; H×T×E where there are heads; T×V logits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


# ------------------------------------------------------------------------------------------ what a model reads


def looked_up(tokens: Array, table: Array) -> Array:
    return table[tokens]


def times_root_of_width(x: Array) -> Array:
    return x * np.sqrt(np.float32(x.shape[-1]))


def sinusoids(length: int, width: int) -> Array:
    position, dimension = np.arange(length)[:, None], np.arange(width)[None]
    angle = position / 10000 ** ((dimension - dimension % 2) / width)
    return np.where(dimension % 2 == 0, np.sin(angle), np.cos(angle)).astype(np.float32)


def first_rows(table: Array, length: int) -> Array:
    return table[:length]


def added(x: Array, y: Array) -> Array:
    return x + y


def beside_and_projected(x: Array, y: Array, weight: Array, bias: Array) -> Array:
    return np.concatenate([x, y], axis=-1) @ weight.T + bias


def sum_of_three(x: Array, y: Array, z: Array) -> Array:
    return x + y + z


def the_same(x: Array) -> Array:
    return x


def second_after(tokens: Array, end: int, kinds: int) -> Array:
    ends = (tokens == end).astype(np.int64)
    return np.minimum(np.cumsum(ends) - ends, min(1, kinds - 1))


def scaled_pixels(pixels: Array, mean: Any, deviation: Any) -> Array:
    share = pixels.astype(np.float32) / np.float32(255)
    by_channel = np.array([mean, deviation], np.float32)[:, :, None, None]
    return (share - by_channel[0]) / by_channel[1]


def projected_patches(image: Array, side: int, weight: Array, bias: Array, first: Array) -> Array:
    channels, down, across = image.shape[0], image.shape[1] // side, image.shape[2] // side
    cut = image.reshape(channels, down, side, across, side).transpose(1, 3, 0, 2, 4)
    return np.concatenate([first[None], cut.reshape(down * across, -1) @ weight.T + bias])


# ------------------------------------------------------------------------------------------ attention (§3.2)


def projected_to_heads(x: Array, weight: Array, bias: Array, heads: int) -> Array:
    rows = x @ weight.T + bias
    return rows.reshape(len(x), heads, -1).swapaxes(0, 1)


def products(query: Array, key: Array) -> Array:
    return query @ key.swapaxes(-1, -2)


def products_so_far(query: Array, key: Array) -> Array:
    scores = query @ key.swapaxes(-1, -2)
    return np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)


def over_root_of_head_width(scores: Array, query: Array) -> Array:
    return scores / np.sqrt(np.float32(query.shape[-1]))


def look_ahead(length: int) -> Array:
    return np.triu(np.full((length, length), -np.inf, dtype=np.float32), 1)


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def weighted_sum(weights: Array, value: Array) -> Array:
    return weights @ value


def heads_side_by_side(context: Array, weight: Array, bias: Array) -> Array:
    merged = np.concatenate(list(context), axis=-1)
    return merged @ weight.T + bias


# ------------------------------------------------------------------------------------------ around a sub-layer


def mean_of_row(x: Array) -> Array:
    return x.mean(axis=-1, keepdims=True)


def deviation_of_row(x: Array, mean: Array, epsilon: float) -> Array:
    return np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + np.float32(epsilon))


def root(variance: Array, epsilon: float) -> Array:
    return np.sqrt(variance + np.float32(epsilon))


def normalised(x: Array, mean: Array, deviation: Array, weight: Array, bias: Array) -> Array:
    return (x - mean) / deviation * weight + bias


def linear(x: Array, weight: Array, bias: Array) -> Array:
    return x @ weight.T + bias


def not_below_zero(x: Array, weight: Array, bias: Array) -> Array:
    return np.maximum(0, x @ weight.T + bias)


def gelu(x: Array, weight: Array, bias: Array) -> Array:
    from math import erf  # NumPy has none

    z = x @ weight.T + bias
    return z * (1 + np.vectorize(erf)(z / np.sqrt(2))) / 2


def gelu_by_tanh(x: Array, weight: Array, bias: Array) -> Array:
    z = x @ weight.T + bias
    return z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) / 2


def swish(x: Array, weight: Array, bias: Array) -> Array:
    z = x @ weight.T + bias
    return z * sigmoid(z)


def matched_with(x: Array, table: Array) -> Array:
    return x @ table.T


def highest_of_each(x: Array) -> Array:
    return x.max(axis=0)


def mean_of_each(x: Array) -> Array:
    return x.mean(axis=0)


def first_of(x: Array) -> Array:
    return x[0]


def summed_up(x: Array, weight: Array, bias: Array) -> Array:
    return np.tanh(x @ weight.T + bias)


def of_length_one(x: Array) -> Array:
    return x / np.sqrt((x * x).sum())


# ------------------------------------------------------------------------------------------ recurrent cells


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def previous(states: Array, start: Array | None, backwards: bool) -> Array:
    """What stood before each step: `start` (zeros if None) before the first, which is the last one read backwards."""
    first = np.zeros_like(states[:1]) if start is None else start[None]
    return np.concatenate([states[1:], first] if backwards else [first, states[:-1]])


def read(x: Array, w: Array, b: Array, context: Array | None = None, c: Array | None = None) -> Array:
    """What a step reads: its token, and what attention found for it, where it looks before the step."""
    return x @ w.T + b + (0 if context is None or c is None else context[0] @ c.T)


def recalled(states: Array, u: Array, d: Array, start: Array | None = None, backwards: bool = False) -> Array:
    """What the state before a step adds to it."""
    return previous(states, start, backwards) @ u.T + d


def summed(
    x: Array, states: Array, w: Array, b: Array, u: Array, d: Array,
    start: Array | None = None, backwards: bool = False, context: Array | None = None, c: Array | None = None,
) -> Array:  # fmt: skip
    return read(x, w, b, context, c) + recalled(states, u, d, start, backwards)


def gate(**step: Any) -> Array:
    return sigmoid(summed(**step))


def candidate(**step: Any) -> Array:
    return np.tanh(summed(**step))


def reset_candidate(
    x: Array, states: Array, reset: Array, w: Array, b: Array, u: Array, d: Array,
    start: Array | None = None, backwards: bool = False, context: Array | None = None, c: Array | None = None,
) -> Array:  # fmt: skip
    return np.tanh(read(x, w, b, context, c) + reset * recalled(states, u, d, start, backwards))


def kept_and_new(
    forget: Array, cell: Array, enter: Array, new: Array, start: Array | None = None, backwards: bool = False
) -> Array:
    return forget * previous(cell, start, backwards) + enter * new


def let_out(out: Array, cell: Array) -> Array:
    return out * np.tanh(cell)


def between(update: Array, states: Array, new: Array, start: Array | None = None, backwards: bool = False) -> Array:
    return update * previous(states, start, backwards) + (1 - update) * new


def squeezed(x: Array) -> Array:
    return np.tanh(x)


def joined(there: Array, back: Array) -> Array:
    return np.concatenate([there, back], axis=-1)


def turned_round(x: Array) -> Array:
    return x[::-1].copy()


def joined_after_turning(there: Array, back: Array) -> Array:
    return np.concatenate([there, back[::-1]], axis=-1)


def last_of(x: Array) -> Array:
    return x[-1]


def ends(there: Array, back: Array, cell_there: Array | None = None, cell_back: Array | None = None) -> Array:
    """The last states of both directions, and the last cells where there are any."""
    cells = [] if cell_there is None or cell_back is None else [cell_there[-1], cell_back[0]]
    return np.concatenate([there[-1], back[0], *cells])


def bridged(weight: Array, bias: Array, **last: Any) -> Array:
    return np.tanh(weight @ ends(**last) + bias)


def bridged_cell(weight: Array, bias: Array, **last: Any) -> Array:
    return weight @ ends(**last) + bias


# ------------------------------------------------------------------------------------------ attention of RNNs


def projected(x: Array, weight: Array) -> Array:
    return x @ weight.T


def asked_before(states: Array, start: Array, weight: Array) -> Array:
    return previous(states, start, False) @ weight.T


def additive_scores(query: Array, key: Array, score: Array) -> Array:
    return (np.tanh(query[:, None] + key[None]) @ score)[None]


def dot_scores(query: Array, key: Array) -> Array:
    return (query @ key.T)[None]


def combined(context: Array, state: Array, weight: Array) -> Array:
    return np.tanh(np.concatenate([context[0], state], axis=-1) @ weight.T)


# ------------------------------------------------------------------------------------------ a text at its question


def only_the_question(tokens: Array, end: int) -> Array:
    asked = np.cumsum(tokens == end) == 0
    asked[0] = False
    return np.where(asked, 0, -np.inf)[None, None]


def stands_in_question(tokens: Array, mask: Array) -> Array:
    return np.isin(tokens, tokens[mask.ravel() == 0])[:, None].astype(np.float32)


def three_side_by_side(x: Array, context: Array, occurs: Array) -> Array:
    return np.concatenate([x, context[0], occurs], axis=-1)


# ------------------------------------------------------------------------------------------ a window


def windows(x: Array, size: int) -> Array:
    padded = np.concatenate([np.zeros((size - 1, x.shape[1]), x.dtype), x])
    return np.stack([padded[i : i + size] for i in range(len(x))])


def squashed(x: Array, weight: Array, bias: Array) -> Array:
    return np.tanh(x.reshape(len(x), -1) @ weight.T + bias)


@dataclass(frozen=True)
class Formula:
    """How a tensor comes from its parents: `says` for people, `compute` in NumPy."""

    says: str
    compute: Callable[..., Array]


# The words for people. The letters are the paper's; a name in words is that of a tensor beside it.
FORMULAS: dict[str, Formula] = {
    "vectors": Formula("row of the embedding table, for each token", looked_up),
    "embedding": Formula("vectors · √d_model", times_root_of_width),
    "positions, sinusoidal": Formula("sin(pos / 10000^(2i/d)), cos(pos / 10000^(2i/d))", sinusoids),
    "positions, learned": Formula("row of the table of positions, for each place", first_rows),
    "input, added": Formula("embedding + positions", added),
    "segments": Formula("0 up to the first <eos>, 1 after it", second_after),
    "segment_vectors": Formula("row of the table of segments, for each token", looked_up),
    "sum, of vectors": Formula("embedding + segment_vectors + positions", sum_of_three),
    "image": Formula("(pixels / 255 − mean) / deviation, of each channel", scaled_pixels),
    "embedding, of patches": Formula("[class token; patches·W + b]", projected_patches),
    "input, concatenated": Formula("[embedding; positions]·W + b", beside_and_projected),
    "the same": Formula("the same numbers, under another name", the_same),
    "query": Formula("x·W_Q + b_Q, parted into heads", projected_to_heads),
    "key": Formula("x·W_K + b_K, parted into heads", projected_to_heads),
    "value": Formula("x·W_V + b_V, parted into heads", projected_to_heads),
    "scores": Formula("Q·Kᵀ", products),
    "scores, so far": Formula("Q·Kᵀ, of the keys that had been written; −∞ for those to come", products_so_far),
    "scaled_scores": Formula("scores / √d_k", over_root_of_head_width),
    "mask": Formula("0 up to a token's own place, −∞ after it", look_ahead),
    "masked_scores": Formula("scores + mask", added),
    "weights": Formula("softmax of each row of the scores", softmax),
    "context": Formula("weights·V", weighted_sum),
    "output, of heads": Formula("[head_1; …; head_h]·W_O + b_O", heads_side_by_side),
    "residual": Formula("x + output", added),
    "mean": Formula("mean of the row", mean_of_row),
    "deviation": Formula("√(mean of (x − mean)² + ε)", deviation_of_row),
    "mean, running": Formula("mean of the feature in training", the_same),
    "deviation, running": Formula("√(variance of the feature in training + ε)", root),
    "norm": Formula("(x − mean) / deviation · γ + β", normalised),
    "activations, relu": Formula("max(0, x·W_1 + b_1)", not_below_zero),
    "activations, gelu": Formula("z·Φ(z), where z = x·W_1 + b_1", gelu),
    "activations, gelu_tanh": Formula("z/2·(1 + tanh(√(2/π)·(z + 0.044715·z³))), where z = x·W_1 + b_1", gelu_by_tanh),
    "activations, swish": Formula("z·σ(z), where z = x·W_1 + b_1", swish),
    "output, of feed-forward": Formula("activations·W_2 + b_2", linear),
    "logits": Formula("hidden · Eᵀ, the table of output vectors", matched_with),
    "logits, with bias": Formula("hidden · Eᵀ + b, the table of output vectors", linear),
    "logits, of labels": Formula("hidden·W + b", linear),
    "pooled, highest": Formula("the highest value of each feature in the text", highest_of_each),
    "pooled, mean": Formula("the mean of each feature over the text", mean_of_each),
    "pooled, first": Formula("the state of the first token", first_of),
    "summary": Formula("tanh(pooled·W + b)", summed_up),
    "vector": Formula("pooled / ‖pooled‖", of_length_one),
    "sum": Formula("W·x_t + b + U·h_{t−1} + b'", summed),
    "gate": Formula("σ(W·x_t + b + U·h_{t−1} + b')", gate),
    "candidate": Formula("tanh(W·x_t + b + U·h_{t−1} + b')", candidate),
    "candidate, reset": Formula("tanh(W·x_t + b + r⊙(U·h_{t−1} + b'))", reset_candidate),
    "cell": Formula("f⊙c_{t−1} + i⊙g", kept_and_new),
    "states, rnn": Formula("tanh(sum)", squeezed),
    "states, lstm": Formula("o⊙tanh(c)", let_out),
    "states, gru": Formula("z⊙h_{t−1} + (1 − z)⊙candidate", between),
    "states, both ways": Formula("[h→; h←]", joined),
    "turned": Formula("the encoder's input from its last row to its first", turned_round),
    "states, turned": Formula("[h→; h←], the second from its last row to its first", joined_after_turning),
    "start": Formula("the encoder's last state", last_of),
    "start, bridged": Formula("tanh(W·[h→; h←] + b), of the encoder's last states", bridged),
    "start_cell, bridged": Formula("V·[h→; h←; c→; c←] + b, of the encoder's last states", bridged_cell),
    "key, projected": Formula("U·h_j", projected),
    "query, projected": Formula("W·s_{i−1}", asked_before),
    "scores, additive": Formula("v·tanh(W·s_{i−1} + U·h_j)", additive_scores),
    "scores, dot": Formula("s_i · key_j", dot_scores),
    "output, attentional": Formula("tanh(W·[context; s_i])", combined),
    "mask, of a question": Formula("0 for what stands in the question, −∞ for the rest", only_the_question),
    "query, of a text": Formula("h·W_Q + b_Q", linear),
    "scores, one head": Formula("Q·Hᵀ, H being the hidden states", dot_scores),
    "scaled_scores, one head": Formula("scores / √d_model", over_root_of_head_width),
    "occurs": Formula("1 where the token stands in the question, 0 elsewhere", stands_in_question),
    "input, of a reader": Formula("[hidden; context; occurs]", three_side_by_side),
    "window": Formula("the vectors of the last tokens, zeros before the first", windows),
    "hidden, of a window": Formula("tanh(H·[x_{t−n+1}; …; x_t] + d)", squashed),
}
