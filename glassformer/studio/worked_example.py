"""Attention on small matrices that a reader typed: every intermediate matrix, and the operands of every cell."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glassformer.errors import Message, UserError
from glassformer.reference import attention, layers
from glassformer.reference.operation import ALL, Array, Entry, Index, Operation

MOST_ROWS = 8  # and columns, of any matrix
LARGEST = 1e6  # magnitude of a number
MOST_CHARACTERS = 2000  # of a matrix as text
MOST_DECIMALS = 6


def round_to(x: Array, decimals: int) -> Array:
    return np.round(x, decimals)


rounding = Operation("round(weights)", round_to, lambda index, x, decimals: Entry("round(x)", {"x": index}))


@dataclass
class WorkedExample:
    """The matrices of an example by name, and how each was computed, in order."""

    matrices: dict[str, Array] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, formula: str, operation: Operation, operands: Mapping[str, str], **constants: Any) -> None:
        """Compute a matrix. `operands` names the matrix of each role; a weight W is given to the operation as Wᵀ."""
        values = {role: self._operand(role, matrix) for role, matrix in operands.items()} | constants
        result = operation.compute(**values)
        matrix = result[0] if result.ndim == 3 else result
        self.matrices[name] = matrix
        head = (0,) * (result.ndim - 2)

        def picked(row: int, column: int) -> list[dict[str, Any]]:
            picks = operation.entry((*head, row, column), **values).picks
            return [_place(role, operands[role], at[values[role].ndim - 2 :]) for role, at in picks.items()]

        cells = [[picked(r, c) for c in range(matrix.shape[1])] for r in range(len(matrix))]
        step = {"name": name, "formula": formula, "operands": list(operands.values()), "values": matrix.tolist()}
        self.steps.append(step | {"cells": cells, "constants": {key: float(x) for key, x in constants.items()}})

    def _operand(self, role: str, matrix: str) -> Array:
        values = self.matrices[matrix]
        if role == "weight":
            return values.T
        return values if role == "x" else values[None]  # one head


def compute(inputs: Mapping[str, Array], *, scaled: bool, decimals: int | None) -> WorkedExample:
    """Compute attention: the queries from x, the keys and values from the memory if there is one, otherwise from x."""
    example = WorkedExample(dict(inputs))
    source = "memory" if "memory" in inputs else "x"
    example.add("Q", "x·W_Q", layers.projection, {"x": "x", "weight": "W_Q"})
    example.add("K", f"{source}·W_K", layers.projection, {"x": source, "weight": "W_K"})
    example.add("V", f"{source}·W_V", layers.projection, {"x": source, "weight": "W_V"})
    example.add("scores", "Q·Kᵀ", attention.dot_products, {"query": "Q", "key": "K"})
    scores = "scores"
    if scaled:
        factor = 1 / math.sqrt(example.matrices["Q"].shape[1])
        example.add("scaled_scores", "scores / √d_k", layers.scale_scores, {"x": "scores"}, factor=factor)
        scores = "scaled_scores"
    example.add("weights", f"softmax({scores})", attention.attention_weights, {"scores": scores})
    weights = "weights"
    if decimals is not None:
        example.add("rounded_weights", "round(weights)", rounding, {"x": "weights"}, decimals=decimals)
        weights = "rounded_weights"
    example.add("output", f"{weights}·V", attention.head_output, {"weights": weights, "value": "V"})
    return example


def _place(role: str, matrix: str, at: Index) -> dict[str, Any]:
    """Return the row and column of picked entries in the matrix as the reader sees it; None is all of them."""
    row, column = (i if isinstance(i, int) else None for i in (*at, ALL, ALL)[:2])
    if role == "weight":
        row, column = column, row
    return {"matrix": matrix, "row": row, "column": column}


# ------------------------------------------------------------------------------------------ reading and checking


def read_inputs(texts: Mapping[str, str]) -> dict[str, Array]:
    """Read all matrices and check that their sizes fit each other."""
    inputs = {name: read_matrix(name, text) for name, text in texts.items()}
    x, memory = inputs["x"], inputs.get("memory", inputs["x"])
    for name, source in (("W_Q", x), ("W_K", memory), ("W_V", memory)):
        if len(inputs[name]) != source.shape[1]:
            of = "memory" if source is memory and "memory" in inputs else "x"
            message = Message(
                "{name} has {rows} rows, but {of} has {columns} columns.",
                name=name, rows=len(inputs[name]), of=of, columns=source.shape[1],
            )  # fmt: skip
            raise UserError(message, where=name, hint="x·W needs one row of W per column of x")
    queries, keys = inputs["W_Q"].shape[1], inputs["W_K"].shape[1]
    if queries != keys:
        message = Message("W_Q has {queries} columns, but W_K has {keys}.", queries=queries, keys=keys)
        hint = "queries and keys must have the same width d_k for their dot product"
        raise UserError(message, where="W_K", hint=hint)
    return inputs


def read_matrix(name: str, text: str) -> Array:
    """Read a matrix: one row per line or semicolon, or nested brackets as Python writes them."""
    if len(text) > MOST_CHARACTERS:
        raise _too_large(name)
    plain = text.replace("−", "-").strip()
    if "[" in plain:  # a row ends at each closing bracket
        plain = re.sub(r"\]", ";", plain).replace("[", " ")
    lines = [line for line in re.split(r"[;\n]", plain) if line.strip(" ,\t")]
    rows = [[_number(name, word) for word in re.split(r"[\s,]+", line.strip(" ,\t"))] for line in lines]
    if not rows:
        raise UserError(Message("{name} is empty.", name=name), where=name, hint="enter one row of numbers per line")
    if len(rows) > MOST_ROWS or max(map(len, rows)) > MOST_ROWS:
        raise _too_large(name)
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            values = {"name": name, "row": number, "n": len(row), "first": len(rows[0])}
            message = Message("Row {row} of {name} has {n} numbers, but row 1 has {first}.", **values)
            raise UserError(message, where=name, hint="give every row the same number of values")
    return np.array(rows, dtype=np.float64)


def _number(name: str, word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not abs(number) <= LARGEST:
        message = Message("“{word}” in {name} is not a number up to a million.", word=word[:20], name=name)
        raise UserError(message, where=name, hint="enter one row of numbers per line")
    return number


def _too_large(name: str) -> UserError:
    message = Message("{name} has too many numbers.", name=name)
    return UserError(message, where=name, hint=Message("use at most {n} rows and {n} columns", n=MOST_ROWS))
