"""Model inputs: token embeddings, positional encodings, segments, images."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from glassformer.errors import Message
from glassformer.reference.layers import multiply_add
from glassformer.reference.operation import ALL, Array, Coordinates, Entry, Index, Operation


def given(values: Array) -> Array:
    return values


# The input of a pass: token ids, pixels. It is not computed from anything.
model_input = Operation("input of the model", given, lambda index, values: Entry("", {}), position_axis=-1)


# A tensor that an intervention replaced: its values also come from outside of the model.
intervened = Operation("set by an intervention", given, lambda index, values: Entry("", {}))


def intervened_on(operation: Operation | None) -> Operation:
    """Return `intervened` with the layout of the tensor that the given operation would have computed."""
    if operation is None:
        return intervened
    return replace(
        intervened,
        batched=operation.batched,
        position_axis=operation.position_axis,
        unwritten=operation.unwritten,
        replaces=operation.replaces or operation,
    )


def table_rows(tokens: Array, table: Array) -> Array:
    return table[tokens]


def _lookup_entry(index: Coordinates, tokens: Array, table: Array) -> Entry:
    row, column = index
    token = int(tokens[row])
    return Entry(f"table[{token}, {column}]", {"table": (token, column)}, compute=lambda table: table)


token_embedding = Operation(
    "row of the embedding table for each token", table_rows, _lookup_entry, symbols={"table": "E"}
)
segment_embedding = Operation("row of the segment table for each token", table_rows, _lookup_entry)


# ------------------------------------------------------------------------------------------ positions (§3.5)


def sinusoids(like: Array) -> Array:
    length, width = like.shape[-2:]
    position, dimension = np.arange(length)[:, None], np.arange(width)[None]
    angle = position / 10000 ** ((dimension - dimension % 2) / width)
    return np.where(dimension % 2 == 0, np.sin(angle), np.cos(angle)).astype(np.float32)


def _sinusoid_entry(index: Coordinates, like: Array) -> Entry:
    position, i = index
    even, width = i - i % 2, like.shape[-1]
    wave, function = ("cos", math.cos) if i % 2 else ("sin", math.sin)
    value = function(position / 10000 ** (even / width))
    return Entry(f"{wave}({position} / 10000^({even}/{width}))", {}, compute=lambda: value)


def rotation(like: Array, heads: int) -> Array:
    return sinusoids(like[:, : like.shape[-1] // heads])


def _rotation_entry(index: Coordinates, like: Array, heads: int) -> Entry:
    return _sinusoid_entry(index, like[:, : like.shape[-1] // heads])


def first_rows(table: Array, like: Array) -> Array:
    return table[: like.shape[-2]]


rotary_positions = Operation(
    "sin(pos / 10000^(2i/d_k)), cos(pos / 10000^(2i/d_k))", rotation, _rotation_entry, batched=False
)
sinusoidal_positions = Operation(
    "sin(pos / 10000^(2i/d)), cos(pos / 10000^(2i/d))", sinusoids, _sinusoid_entry, batched=False
)
learned_positions = Operation(
    "row of the position table for each position",
    first_rows,
    lambda index, table, like: Entry("table", {"table": index}, compute=lambda table: table),
    batched=False,
)


def concat_linear(x: Array, y: Array, weight: Array, bias: Array) -> Array:
    return np.concatenate([x, y], axis=-1) @ weight.T + bias


def _concat_linear_entry(index: Coordinates, **operands: Array) -> Entry:
    row, column = index
    picks: dict[str, Index] = {"x": (row, ALL), "y": (row, ALL), "weight": (column, ALL), "bias": (column,)}
    return Entry("Σ [x; y]·weight + bias", picks)


concat_positions = Operation("[embedding; positions]·W + b", concat_linear, _concat_linear_entry)


# ------------------------------------------------------------------------------------------ segments


def segments_of(tokens: Array, eos: int, segments: int) -> Array:
    ends = (tokens == eos).astype(np.int64)
    return np.minimum(np.cumsum(ends) - ends, min(1, segments - 1))


def _segment_entry(index: Coordinates, tokens: Array, eos: int, segments: int) -> Entry:
    (row,) = index
    if row == 0:
        return Entry("0: the first token", {}, compute=lambda: 0)
    highest = min(1, segments - 1)
    formula = Message("number of tokens equal to {eos}, at most {highest}", eos=eos, highest=highest)
    picks: dict[str, Index] = {"tokens": (slice(0, row),)}
    return Entry(formula, picks, compute=lambda tokens: min(highest, (tokens == eos).sum()))


segments = Operation("0 up to the first <eos>, 1 after it", segments_of, _segment_entry, position_axis=-1)


# ------------------------------------------------------------------------------------------ images


def scaled_pixels(pixels: Array, mean: Any, deviation: Any) -> Array:
    share = pixels.astype(np.float32) / np.float32(255)
    by_channel = np.array([mean, deviation], np.float32)[:, :, None, None]
    return (share - by_channel[0]) / by_channel[1]


def _pixel_entry(index: Coordinates, pixels: Array, mean: Any, deviation: Any) -> Entry:
    m, d = (np.float32(values[index[0]]) for values in (mean, deviation))
    formula = f"(pixels / 255 − {m}) / {d}"
    return Entry(formula, {"pixels": index}, compute=lambda pixels: (pixels.astype(np.float32) / 255 - m) / d)


def projected_patches(image: Array, patch: int, weight: Array, bias: Array, class_token: Array) -> Array:
    channels, rows, columns = image.shape[0], image.shape[1] // patch, image.shape[2] // patch
    cut = image.reshape(channels, rows, patch, columns, patch).transpose(1, 3, 0, 2, 4)
    return np.concatenate([class_token[None], cut.reshape(rows * columns, -1) @ weight.T + bias])


def _patch_entry(index: Coordinates, image: Array, patch: int, **rest: Array) -> Entry:
    row, column = index
    if row == 0:
        return Entry("class_token", {"class_token": (column,)}, compute=lambda class_token: class_token)
    y, x = divmod(row - 1, image.shape[2] // patch)
    square = (slice(y * patch, (y + 1) * patch), slice(x * patch, (x + 1) * patch))
    picks: dict[str, Index] = {"image": (ALL, *square), "weight": (column, ALL), "bias": (column,)}

    def compute(image: Array, weight: Array, bias: Array) -> Array:
        return multiply_add(image.reshape(1, -1), weight, bias)

    return Entry("Σ image·weight + bias", picks, compute=compute)


image = Operation("(pixels / 255 − mean) / deviation, per channel", scaled_pixels, _pixel_entry)
patch_embedding = Operation("[class token; patches·W + b]", projected_patches, _patch_entry)


# ------------------------------------------------------------------------------------------ a question and a text


def occurs_in_question(tokens: Array, mask: Array) -> Array:
    return np.isin(tokens, tokens[mask.ravel() == 0])[:, None].astype(np.float32)


def _occurs_entry(index: Coordinates, tokens: Array, mask: Array) -> Entry:
    row = index[0]
    picks: dict[str, Index] = {"tokens": (ALL,), "mask": (0, 0, ALL)}
    return Entry(Message("1 if tokens[{row}] is among the tokens whose mask is 0", row=row), picks, within=(row, 0))


occurs = Operation("1 where the token occurs in the question, 0 elsewhere", occurs_in_question, _occurs_entry)
