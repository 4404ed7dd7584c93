"""A trace as numbers for other programs: CSV, JSON and NumPy's own format. Nothing is rounded."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from torch import Tensor

from glassformer.glass.trace import Look, Trace

COLUMNS = ("attention", "layer", "head", "row", "row_piece", "column", "column_piece", "weight")


def as_csv(trace: Trace, looks: Iterable[Look], head: int | None = None) -> str:
    """One line a weight, of every head or of one."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for look in looks:
        for number, weights_QK in enumerate(trace[look.name]):
            if head not in (None, number):
                continue
            for q, (row, weights) in enumerate(zip(look.rows, shortest(weights_QK), strict=True)):
                for k, (column, weight) in enumerate(zip(look.columns, weights, strict=True)):
                    table.writerow([look.kind, look.layer, number, q, row, k, column, weight])
    return out.getvalue()


def as_json(trace: Trace, looks: Iterable[Look], head: int | None = None, tensors: str = "") -> dict[str, Any]:
    """Pieces, what could have come next, and attention; and the tensors whose names match a pattern."""
    return {
        "source": trace.source,
        "target": trace.target,
        "written": trace.written if trace.target else trace.predicted,
        "free_running": trace.free_running,
        "next": [[[choice.piece, choice.probability] for choice in choices] for choices in trace.choices()],
        "attention": [
            {
                "kind": look.kind,
                "layer": look.layer,
                "rows": look.rows,
                "columns": look.columns,
                "weights": {
                    number: shortest(weights_QK)
                    for number, weights_QK in enumerate(trace[look.name])
                    if head in (None, number)
                },
            }
            for look in looks
        ],
        "tensors": {
            name: {"shape": list(tensor.shape), "values": shortest(tensor)}
            for name, tensor in trace.tensors.items()
            if tensors and fnmatchcase(name, tensors)
        },
    }


def as_arrays(trace: Trace) -> dict[str, Any]:
    """Every tensor, for `np.savez`."""
    return {name: tensor.numpy() for name, tensor in trace.tensors.items()}


def shortest(tensor: Tensor) -> Any:
    """Nested lists. Each number as the shortest one that is read back as the same fp32; −∞ as the text "-inf"."""
    array = tensor.numpy()
    if array.dtype != np.float32:
        return array.tolist()
    flat = [float(str(number)) for number in array.ravel()]
    told = [number if math.isfinite(number) else str(number) for number in flat]
    return np.array(told, dtype=object).reshape(array.shape).tolist()
