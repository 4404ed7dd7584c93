"""One entry of a tensor and the entries that it was computed from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from glassformer.errors import Message, UserError, as_message
from glassformer.glass.trace_files import to_lists
from glassformer.nn.probe import Provenance
from glassformer.reference.operation import Array, Index
from glassformer.studio.serialization import OVER_VOCABULARY, find_tensor, index_tensor, is_transposed
from glassformer.studio.tracing import TraceResult


def describe_entry(result: TraceResult, name: str, at: tuple[int, ...]) -> dict[str, Any]:
    """Return an entry, its formula and its operands.

    `value` is the recorded value, `again` is computed from the operands alone. `says` is the formula of the entry,
    `message` the same as template and values. `column` is the token or label of an entry of logits or probabilities.
    An operand that is a weight has the letter of the formula as `symbol`, if there is one.
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
        "column": trace.to_tokens([at[-1]])[0] if name in OVER_VOCABULARY else None,
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
            "symbol": _symbol(made, role, entry.picks[role]),
            "at": [_index(i) for i in entry.picks[role]],
            "values": _shortest(values.ravel() if values.ndim else values),
        }
        for role, values in ((role, np.asarray(values)) for role, values in picked.items())
    ]
    return described


def _symbol(made: Provenance, role: str, at: Index) -> str | None:
    """Return some entries of a weight as a textbook writes them: `W_Q[:, 6]`, counted from 1."""
    letter = made.operation.symbols.get(role)
    if letter is None:
        return None
    if is_transposed(role) and isinstance(at[0], int):
        return f"{letter}[:, {at[0] + 1}]"
    return letter + str([i + 1 for i in at if isinstance(i, int)] or "")


def _index(index: int | slice) -> int | str | None:
    """Return an index as JSON: a number, `4:8`, or None for a whole axis."""
    if isinstance(index, int):
        return index
    return None if index.stop is None else f"{index.start}:{index.stop}"


def _shortest(array: Array) -> Any:
    return to_lists(torch.from_numpy(np.array(array)))
