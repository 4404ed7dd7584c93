"""One entry of a tensor and the entries that it was computed from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from glassformer.errors import Message, UserError, as_message
from glassformer.glass.trace_files import to_lists
from glassformer.reference.operation import Array
from glassformer.studio.serialization import find_tensor, index_tensor
from glassformer.studio.tracing import TraceResult


def describe_entry(result: TraceResult, name: str, at: tuple[int, ...]) -> dict[str, Any]:
    """Return an entry, its formula and its operands.

    `value` is the recorded value, `again` is computed from the operands alone. `says` is the formula of the entry,
    `message` the same as template and values.
    """
    trace, tensor = result.trace, find_tensor(result.trace, name)
    if len(at) != tensor.dim():
        message = Message("An entry of {name} has {n} indices.", name=name, n=tensor.dim())
        raise UserError(message, where=",".join(map(str, at)), hint="give one index per dimension")
    described: dict[str, Any] = {
        "value": to_lists(index_tensor(tensor, at)),
        "says": None,
        "again": None,
        "operands": [],
    }
    if trace.is_input(name):
        return described | {"without": "put in"}
    entry, picked, value = trace.entry(name, at)
    made = trace.provenance(name)
    sources = made.tensors | {role: str(weight) for role, weight in made.weights.items()}
    described |= {"says": entry.formula, "message": as_message(entry.formula).to_json()}
    described["again"] = _shortest(np.asarray(value, np.float32))
    described["operands"] = [
        {
            "role": role,
            "name": sources[role],
            "tensor": role in made.tensors,
            "at": [_index(i) for i in entry.picks[role]],
            "values": _shortest(values.ravel() if values.ndim else values),
        }
        for role, values in ((role, np.asarray(values)) for role, values in picked.items())
    ]
    return described


def _index(index: int | slice) -> int | str | None:
    """Return an index as JSON: a number, `4:8`, or None for a whole axis."""
    if isinstance(index, int):
        return index
    return None if index.stop is None else f"{index.start}:{index.stop}"


def _shortest(array: Array) -> Any:
    return to_lists(torch.from_numpy(np.array(array)))
