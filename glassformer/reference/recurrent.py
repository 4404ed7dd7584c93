"""Recurrent cells: gates, states, and the bridge from the encoder's last state to the decoder's initial state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.reference.layers import sigmoid
from glassformer.reference.operation import ALL, Array, Coordinates, Entry, Index, Operation


def previous_state(states: Array, start: Array | None = None, backwards: bool = False) -> Array:
    first = np.zeros_like(states[:1]) if start is None else start[None]
    return np.concatenate([states[1:], first] if backwards else [first, states[:-1]])


def _previous_entry(index: Coordinates, states: Array, start: Array | None = None, backwards: bool = False) -> Entry:
    row, column = index
    before = row + 1 if backwards else row - 1
    if 0 <= before < len(states):
        return Entry("states", {"states": (before, column)}, compute=lambda states: states)
    if start is not None:
        return Entry("start", {"start": (column,)}, compute=lambda start: start)
    return Entry("0: before the first step", {}, compute=lambda: 0.0)


previous = Operation(
    "state of the step before; zeros, or the initial state, before the first", previous_state, _previous_entry
)


# ------------------------------------------------------------------------------------------ one step of a cell


def read_input(x: Array, w: Array, b: Array, context: Array | None = None, c: Array | None = None) -> Array:
    return x @ w.T + b + (0 if context is None or c is None else context[0] @ c.T)


def step_sum(
    x: Array, w: Array, b: Array, previous: Array, u: Array, d: Array,
    context: Array | None = None, c: Array | None = None,
) -> Array:  # fmt: skip
    return read_input(x, w, b, context, c) + previous @ u.T + d


def gate_of(
    x: Array, w: Array, b: Array, previous: Array, u: Array, d: Array,
    context: Array | None = None, c: Array | None = None,
) -> Array:  # fmt: skip
    return sigmoid(step_sum(x, w, b, previous, u, d, context, c))


def candidate_of(
    x: Array, w: Array, b: Array, previous: Array, u: Array, d: Array,
    context: Array | None = None, c: Array | None = None,
) -> Array:  # fmt: skip
    return np.tanh(step_sum(x, w, b, previous, u, d, context, c))


def reset_candidate_of(
    x: Array, w: Array, b: Array, previous: Array, u: Array, d: Array, reset: Array,
    context: Array | None = None, c: Array | None = None,
) -> Array:  # fmt: skip
    return np.tanh(read_input(x, w, b, context, c) + reset * (previous @ u.T + d))


def _step_entry(formula: str) -> Callable[..., Entry]:
    """Return the entry of a gate or candidate; in the formula, `{read}` and `{recall}` are the two sums."""

    def entry(index: Coordinates, context: Array | None = None, reset: Array | None = None, **rest: Any) -> Entry:
        row, column = index
        read, recall = "Σ x·w + b", "Σ previous·u + d"
        picks: dict[str, Index] = {"x": (row, ALL), "w": (column, ALL), "b": (column,)}
        if context is not None:
            read += " + Σ context·c"
            picks |= {"context": (0, row), "c": (column, ALL)}
        if reset is not None:
            picks["reset"] = index
        picks |= {"previous": (row, ALL), "u": (column, ALL), "d": (column,)}
        return Entry(formula.format(read=read, recall=recall), picks)

    return entry


rnn_sum = Operation("W·x_t + b + U·h_{t−1} + b'", step_sum, _step_entry("{read} + {recall}"))
gate = Operation("σ(W·x_t + b + U·h_{t−1} + b')", gate_of, _step_entry("σ({read} + {recall})"))
candidate = Operation("tanh(W·x_t + b + U·h_{t−1} + b')", candidate_of, _step_entry("tanh({read} + {recall})"))
gru_candidate = Operation(
    "tanh(W·x_t + b + r⊙(U·h_{t−1} + b'))", reset_candidate_of, _step_entry("tanh({read} + reset·({recall}))")
)


# ------------------------------------------------------------------------------------------ states


def _elementwise(formula: str) -> Callable[..., Entry]:
    return lambda index, **operands: Entry(formula, dict.fromkeys(operands, index))


def tanh_of(x: Array) -> Array:
    return np.tanh(x)


def lstm_cell(forget: Array, previous: Array, enter: Array, new: Array) -> Array:
    return forget * previous + enter * new


def lstm_hidden(output: Array, cell: Array) -> Array:
    return output * np.tanh(cell)


def gru_hidden(update: Array, previous: Array, new: Array) -> Array:
    return update * previous + (1 - update) * new


rnn_state = Operation("tanh(sum)", tanh_of, _elementwise("tanh(x)"))
cell_state = Operation("f⊙c_{t−1} + i⊙g", lstm_cell, _elementwise("forget·previous + enter·new"))
lstm_state = Operation("o⊙tanh(c_t)", lstm_hidden, _elementwise("output·tanh(cell)"))
gru_state = Operation("z⊙h_{t−1} + (1 − z)⊙candidate", gru_hidden, _elementwise("update·previous + (1 − update)·new"))


# ------------------------------------------------------------------------------------------ encoder to decoder


def ends_of(there: Array, back: Array) -> Array:
    return np.concatenate([there[-1], back[0]])


def _ends_entry(index: Coordinates, there: Array, back: Array) -> Entry:
    (column,) = index
    width = there.shape[-1]
    if column < width:
        return Entry("there", {"there": (len(there) - 1, column)}, compute=lambda there: there)
    return Entry("back", {"back": (0, column - width)}, compute=lambda back: back)


def bridge_hidden(h: Array, weight: Array, bias: Array, c: Array | None = None) -> Array:
    return np.tanh(weight @ (h if c is None else np.concatenate([h, c])) + bias)


def bridge_cell(h: Array, weight: Array, bias: Array, c: Array) -> Array:
    return weight @ np.concatenate([h, c]) + bias


def _bridge_entry(formula: str) -> Callable[..., Entry]:
    def entry(index: Coordinates, h: Array, weight: Array, bias: Array, c: Array | None = None) -> Entry:
        picks: dict[str, Index] = {"h": (ALL,), "weight": (*index, ALL), "bias": index}
        if c is not None:
            picks["c"] = (ALL,)
        return Entry(formula.format("h" if c is None else "h; c"), picks)

    return entry


both_ends = Operation("[h→ of the last token; h← of the first]", ends_of, _ends_entry)
initial_state = Operation("tanh(W·[h→; h←] + b)", bridge_hidden, _bridge_entry("tanh(Σ [{}]·weight + bias)"))
initial_cell = Operation("V·[h→; h←; c→; c←] + b", bridge_cell, _bridge_entry("Σ [{}]·weight + bias"))
