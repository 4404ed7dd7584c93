"""Which numbers one cell of a tensor comes from, and how: attention, normalisation, feed-forward, images, heads.

A formula (`glass/formulas.py`) computes a whole tensor. Here each says which part of what it is given one cell depends
on: `scores[h, q, k]` is the sum of `query[h, q] · key[h, k]`. What has states is in `recurrent_operands.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.glass import formulas
from glassformer.glass.formulas import Array

Index = tuple[int | slice, ...]
ALL = slice(None)


@dataclass(frozen=True)
class Part:
    """How a cell comes from parts of what its formula is given.

    says     for people; a name stands for a part
    picks    those parts, by the name of the argument
    compute  the cell, given the parts in this order
    """

    says: str
    picks: dict[str, Index]
    compute: Callable[..., Any]


Cell = tuple[int, ...]
Given = dict[str, Any]


# ------------------------------------------------------------------------------------------ sums of products


def _dot(x: Array, weight: Array, bias: Array | float = 0.0) -> Any:
    return x.ravel() @ weight + bias


def _linear(at: Cell, given: Given) -> Part:
    *row, column = at
    return Part("Σ x·weight + bias", {"x": tuple(row), "weight": (column,), "bias": (column,)}, _dot)


def _activated(says: str, function: Callable[[Any], Any]) -> Callable[[Cell, Given], Part]:
    def of(at: Cell, given: Given) -> Part:
        inner = _linear(at, given)
        return Part(says, inner.picks, lambda x, weight, bias: function(_dot(x, weight, bias)))

    return of


def _to_heads(at: Cell, given: Given) -> Part:
    head, row, column = at
    place = head * (len(given["weight"]) // given["heads"]) + column
    return Part("Σ x·weight + bias", {"x": (row,), "weight": (place,), "bias": (place,)}, _dot)


def _products(at: Cell, given: Given) -> Part:
    head, row, column = at
    return Part("Σ query·key", {"query": (head, row), "key": (head, column)}, _dot)


def _products_so_far(at: Cell, given: Given) -> Part:
    if at[2] > at[1]:
        return Part("−∞: not written yet", {}, lambda: -np.inf)
    return _products(at, given)


def _weighted(at: Cell, given: Given) -> Part:
    head, row, column = at
    value: Index = (head, ALL, column) if given["value"].ndim == 3 else (ALL, column)
    return Part("Σ weights·value", {"weights": (head, row), "value": value}, lambda weights, value: weights @ value)


def _from_heads(at: Cell, given: Given) -> Part:
    row, column = at
    picks: dict[str, Index] = {"context": (ALL, row), "weight": (column,), "bias": (column,)}
    return Part("Σ context·weight + bias", picks, lambda context, weight, bias: _dot(context, weight, bias))


def _beside(at: Cell, given: Given) -> Part:
    row, column = at
    picks: dict[str, Index] = {"x": (row,), "y": (row,), "weight": (column,), "bias": (column,)}

    def compute(x: Array, y: Array, weight: Array, bias: Any) -> Any:
        return _dot(np.concatenate([x, y]), weight, bias)

    return Part("Σ [x; y]·weight + bias", picks, compute)


def _matched(at: Cell, given: Given) -> Part:
    *row, column = at
    return Part("Σ x·table", {"x": tuple(row), "table": (column,)}, lambda x, table: x @ table)


def _projected(at: Cell, given: Given) -> Part:
    return Part("Σ x·weight", {"x": at[:-1], "weight": at[-1:]}, _dot)


def _dot_scores(at: Cell, given: Given) -> Part:
    _, row, column = at
    return Part("Σ query·key", {"query": (row,), "key": (column,)}, _dot)


def _additive(at: Cell, given: Given) -> Part:
    _, row, column = at
    picks: dict[str, Index] = {"query": (row,), "key": (column,), "score": (ALL,)}
    return Part("Σ tanh(query + key)·score", picks, lambda query, key, score: np.tanh(query + key) @ score)


# ------------------------------------------------------------------------------------------ a row at a time


def _softmax(at: Cell, given: Given) -> Part:
    place = at[-1]
    return Part(f"exp(scores[{place}]) / Σ exp(scores)", {"scores": at[:-1]}, lambda scores: _share(scores, place))


def _share(scores: Array, place: int) -> Any:
    powers = np.exp(scores - scores.max())
    return powers[place] / powers.sum()


def _mean(at: Cell, given: Given) -> Part:
    return Part("Σ x / d", {"x": at[:-1]}, lambda x: x.mean())


def _deviation(at: Cell, given: Given) -> Part:
    def compute(x: Array, mean: Any) -> Any:
        return np.sqrt(((x - mean) ** 2).mean() + np.float32(given["epsilon"]))

    return Part("√(Σ (x − mean)² / d + ε)", {"x": at[:-1], "mean": at}, compute)


def _normalised(at: Cell, given: Given) -> Part:
    row, column = at
    of_row: Index = (row, 0) if given["mean"].ndim == 2 else (column,)  # of a token, or of a feature in training
    picks: dict[str, Index] = {"x": at, "mean": of_row, "deviation": of_row, "weight": (column,), "bias": (column,)}
    return Part("(x − mean) / deviation · weight + bias", picks, formulas.normalised)


def _root(at: Cell, given: Given) -> Part:
    return Part("√(variance + ε)", {"variance": at}, lambda variance: formulas.root(variance, given["epsilon"]))


# ------------------------------------------------------------------------------------------ what heads read


def _highest(at: Cell, given: Given) -> Part:
    return Part("the highest of x", {"x": (ALL, *at)}, lambda x: x.max())


def _mean_of_each(at: Cell, given: Given) -> Part:
    return Part("Σ x / n", {"x": (ALL, *at)}, lambda x: x.mean())


def _of_length_one(at: Cell, given: Given) -> Part:
    return Part(f"x[{at[0]}] / √Σ x²", {"x": (ALL,)}, lambda x: formulas.of_length_one(x)[at])


def _segment(at: Cell, given: Given) -> Part:
    end, most = given["end"], min(1, given["kinds"] - 1)
    if at[0] == 0:
        return Part("0: nothing stands before it", {}, lambda: 0)
    says = f"how often {end} stands in tokens, at most {most}"
    return Part(says, {"tokens": (slice(0, at[0]),)}, lambda tokens: min(most, (tokens == end).sum()))


def _in_question(at: Cell, given: Given) -> Part:
    def compute(tokens: Array) -> Any:
        return formulas.only_the_question(tokens, given["end"])[at]

    return Part(f"0 after the first token and before the first {given['end']}, else −∞", {"tokens": (ALL,)}, compute)


def _occurs(at: Cell, given: Given) -> Part:
    row = at[0]
    picks: dict[str, Index] = {"tokens": (ALL,), "mask": (0, 0)}
    says = f"1 if tokens[{row}] is among those whose mask is 0"
    return Part(says, picks, lambda tokens, mask: float(tokens[row] in tokens[mask == 0]))


def _side_by_side(at: Cell, given: Given) -> Part:
    row, column = at
    for role, index in (("x", (row,)), ("context", (0, row)), ("occurs", (row,))):
        width = given[role].shape[-1]
        if column < width:
            return Part(role, {role: (*index, column)}, formulas.the_same)
        column -= width
    raise IndexError(at)


# ------------------------------------------------------------------------------------------ images


def _pixel(at: Cell, given: Given) -> Part:
    mean, deviation = (np.float32(given[name][at[0]]) for name in ("mean", "deviation"))
    says = f"(pixels / 255 − {mean}) / {deviation}"
    return Part(says, {"pixels": at}, lambda pixels: (np.float32(pixels) / np.float32(255) - mean) / deviation)


def _patch(at: Cell, given: Given) -> Part:
    row, column = at
    if row == 0:
        return Part("first: the class token", {"first": (column,)}, formulas.the_same)
    side = given["side"]
    y, x = divmod(row - 1, given["image"].shape[2] // side)
    square = (slice(y * side, (y + 1) * side), slice(x * side, (x + 1) * side))
    picks: dict[str, Index] = {"image": (ALL, *square), "weight": (column,), "bias": (column,)}
    return Part("Σ image·weight + bias", picks, _dot)


# ------------------------------------------------------------------------------------------ number by number


def _same(at: Cell, given: Given) -> Part:
    return Part("x", {"x": at}, formulas.the_same)


def _added(at: Cell, given: Given) -> Part:
    def place(shape: tuple[int, ...]) -> Index:  # one row may stand for all
        return tuple(0 if size == 1 else i for i, size in zip(at[-len(shape) :], shape, strict=True))

    return Part("x + y", {name: place(given[name].shape) for name in ("x", "y")}, formulas.added)


def _sum_of_three(at: Cell, given: Given) -> Part:
    return Part("x + y + z", {"x": at, "y": at, "z": at}, formulas.sum_of_three)


def _looked_up(at: Cell, given: Given) -> Part:
    row, column = at
    token = int(given["tokens"][row])
    return Part(f"table[{token}, {column}]", {"table": (token, column)}, lambda table: table)


def _times_root(at: Cell, given: Given) -> Part:
    width = given["x"].shape[-1]
    return Part(f"x · √{width}", {"x": at}, lambda x: x * math.sqrt(width))


def _over_root(at: Cell, given: Given) -> Part:
    width = given["query"].shape[-1]
    return Part(f"scores / √{width}", {"scores": at}, lambda scores: scores / math.sqrt(width))


def _sinusoid(at: Cell, given: Given) -> Part:
    place, i = at
    angle = place / 10000 ** ((i - i % 2) / given["width"])
    wave, compute = ("cos", math.cos) if i % 2 else ("sin", math.sin)
    return Part(f"{wave}({place} / 10000^({i - i % 2}/{given['width']}))", {}, lambda: compute(angle))


def _of_table(at: Cell, given: Given) -> Part:
    return Part("table", {"table": at}, lambda table: table)


def _look_ahead(at: Cell, given: Given) -> Part:
    ahead = at[-1] > at[-2]
    return Part("−∞: after its own place" if ahead else "0: up to its own place", {}, lambda: -np.inf if ahead else 0.0)


def _first(at: Cell, given: Given) -> Part:
    return Part("x", {"x": (0, *at)}, formulas.the_same)


PARTS: dict[Callable[..., Array], Callable[[Cell, Given], Part]] = {
    formulas.looked_up: _looked_up,
    formulas.times_root_of_width: _times_root,
    formulas.sinusoids: _sinusoid,
    formulas.first_rows: _of_table,
    formulas.added: _added,
    formulas.sum_of_three: _sum_of_three,
    formulas.the_same: _same,
    formulas.projected_to_heads: _to_heads,
    formulas.products: _products,
    formulas.products_so_far: _products_so_far,
    formulas.over_root_of_head_width: _over_root,
    formulas.look_ahead: _look_ahead,
    formulas.softmax: _softmax,
    formulas.weighted_sum: _weighted,
    formulas.heads_side_by_side: _from_heads,
    formulas.mean_of_row: _mean,
    formulas.deviation_of_row: _deviation,
    formulas.normalised: _normalised,
    formulas.linear: _linear,
    formulas.not_below_zero: _activated("max(0, Σ x·weight + bias)", lambda z: max(0.0, z)),
    formulas.gelu: _activated("z·Φ(z), z = Σ x·weight + bias", lambda z: z * (1 + math.erf(z / math.sqrt(2))) / 2),
    formulas.swish: _activated("z·σ(z), z = Σ x·weight + bias", lambda z: z * formulas.sigmoid(z)),
    formulas.gelu_by_tanh: _activated(
        "z/2·(1 + tanh(√(2/π)·(z + 0.044715·z³))), z = Σ x·weight + bias",
        lambda z: z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) / 2,
    ),
    formulas.matched_with: _matched,
    formulas.first_of: _first,
    formulas.projected: _projected,
    formulas.dot_scores: _dot_scores,
    formulas.additive_scores: _additive,
    formulas.beside_and_projected: _beside,
    formulas.root: _root,
    formulas.highest_of_each: _highest,
    formulas.mean_of_each: _mean_of_each,
    formulas.summed_up: _activated("tanh(Σ x·weight + bias)", np.tanh),
    formulas.of_length_one: _of_length_one,
    formulas.second_after: _segment,
    formulas.only_the_question: _in_question,
    formulas.stands_in_question: _occurs,
    formulas.three_side_by_side: _side_by_side,
    formulas.scaled_pixels: _pixel,
    formulas.projected_patches: _patch,
}
