"""One entry of a tensor and the entries that it was computed from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from glassformer.errors import UserError
from glassformer.glass.export import to_lists
from glassformer.reference.operation import Array
from glassformer.studio.asking import Seen
from glassformer.studio.payloads import part, tensor_of


def cell_of(seen: Seen, name: str, at: tuple[int, ...]) -> dict[str, Any]:
    """An entry, its formula, and its operands: `value` is the trace's, `again` is computed from the operands alone."""
    trace, tensor = seen.trace, tensor_of(seen.trace, name)
    if len(at) != tensor.dim():
        where = ",".join(map(str, at))
        raise UserError(f"A cell of {name} has {tensor.dim()} indices.", where=where, hint="give that many")
    told: dict[str, Any] = {"value": to_lists(part(tensor, at)), "says": None, "again": None, "operands": []}
    if trace.is_input(name):
        return told | {"without": "put in"}
    entry, picked, value = trace.entry(name, at)
    made = trace.provenance(name)
    sources = made.tensors | {role: str(weight) for role, weight in made.weights.items()}
    told |= {"says": entry.formula, "again": _shortest(np.asarray(value, np.float32))}
    told["operands"] = [
        {
            "role": role,
            "name": sources[role],
            "tensor": role in made.tensors,
            "at": [_index(i) for i in entry.picks[role]],
            "values": _shortest(values.ravel() if values.ndim else values),
        }
        for role, values in ((role, np.asarray(values)) for role, values in picked.items())
    ]
    return told


def _index(index: int | slice) -> int | str | None:
    """An index as it is sent: a number, `4:8`, or None for all."""
    if isinstance(index, int):
        return index
    return None if index.stop is None else f"{index.start}:{index.stop}"


def _shortest(array: Array) -> Any:
    return to_lists(torch.from_numpy(np.array(array)))
