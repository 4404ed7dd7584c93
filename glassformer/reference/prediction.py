"""From logits to a prediction (§3.4): the softmax over the vocabulary and the most probable token."""

from __future__ import annotations

import numpy as np

from glassformer.reference.attention import softmax
from glassformer.reference.operation import ALL, Array, Coordinates, Entry, Operation


def softmax_of_logits(logits: Array) -> Array:
    return softmax(logits)


def _probability_entry(index: Coordinates, logits: Array) -> Entry:
    *row, column = index
    within = (0,) * len(row) + (column,)
    return Entry(f"exp(logits[{column}]) / Σ exp(logits)", {"logits": (*row, ALL)}, within=within)


def largest_index(probabilities: Array) -> Array:
    return np.argmax(probabilities, axis=-1, keepdims=probabilities.ndim == 1)


def _largest_entry(index: Coordinates, probabilities: Array) -> Entry:
    row = index if probabilities.ndim > 1 else ()
    return Entry("argmax(probabilities)", {"probabilities": (*row, ALL)})


probabilities = Operation("softmax(logits)", softmax_of_logits, _probability_entry)
argmax = Operation("argmax(probabilities)", largest_index, _largest_entry, position_axis=-1)
