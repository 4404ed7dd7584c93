"""Traces as CSV, JSON and NumPy arrays. Numbers are not rounded."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from torch import Tensor

from glassformer.glass.trace import AttentionLayer, Trace

COLUMNS = ("attention", "layer", "head", "row", "row_piece", "column", "column_piece", "weight")


def as_csv(trace: Trace, layers: Iterable[AttentionLayer], head: int | None = None) -> str:
    """Return one line per attention weight, of every head or of one."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for layer in layers:
        for number, weights_QK in enumerate(trace[layer.name]):
            if head not in (None, number):
                continue
            for q, (row, weights) in enumerate(zip(layer.rows, to_lists(weights_QK), strict=True)):
                for k, (column, weight) in enumerate(zip(layer.columns, weights, strict=True)):
                    table.writerow([layer.kind, layer.layer, number, q, row, k, column, weight])
    return out.getvalue()


def as_json(
    trace: Trace, layers: Iterable[AttentionLayer], head: int | None = None, tensors: str = ""
) -> dict[str, Any]:
    """Return tokens, next tokens and attention weights, and the tensors whose names match a pattern."""
    return {
        "source": trace.source,
        "target": trace.target,
        "written": trace.written if trace.target else trace.predicted,
        "free_running": trace.free_running,
        "next": [[[token.piece, token.probability] for token in tokens] for tokens in trace.next_tokens()],
        "attention": [
            {
                "kind": layer.kind,
                "layer": layer.layer,
                "rows": layer.rows,
                "columns": layer.columns,
                "weights": {
                    number: to_lists(weights_QK)
                    for number, weights_QK in enumerate(trace[layer.name])
                    if head in (None, number)
                },
            }
            for layer in layers
        ],
        "tensors": {
            name: {"shape": list(tensor.shape), "values": to_lists(tensor)}
            for name, tensor in trace.tensors.items()
            if tensors and fnmatchcase(name, tensors)
        },
    }


def as_arrays(trace: Trace) -> dict[str, Any]:
    """Return every tensor as an array, for `np.savez`."""
    return {name: tensor.numpy() for name, tensor in trace.tensors.items()}


def to_lists(tensor: Tensor) -> Any:
    """Return nested lists of the shortest numbers that read back as the same fp32; −∞ becomes the text "-inf"."""
    array = tensor.numpy()
    if array.dtype != np.float32:
        return array.tolist()
    numbers = (float(str(number)) for number in array.ravel())
    values = [number if math.isfinite(number) else str(number) for number in numbers]
    return np.array(values, dtype=object).reshape(array.shape).tolist()
