"""One number of a trace and the numbers that it comes from. A test computes cells of every tensor from those alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from glassformer.errors import UserError
from glassformer.glass.formulas import Array
from glassformer.glass.recipes import NoFormula, Recipe
from glassformer.glass.tables import shortest
from glassformer.studio import operands, recurrent_operands
from glassformer.studio.asking import Seen
from glassformer.studio.operands import Cell, Given, Part
from glassformer.studio.payloads import part, tensor_of

PARTS = operands.PARTS | recurrent_operands.PARTS


def part_of(recipe: Recipe, at: Cell, given: Given) -> Part:
    """Return how a cell comes from what its formula is given. A test shows that `PARTS` has every formula."""
    return PARTS[recipe.formula.compute](at, given)


def cell_of(seen: Seen, name: str, at: Cell) -> dict[str, Any]:
    """Return a number, how it is computed, and its operands.

    `value` is the number in the trace, `again` the one computed from the operands. Where there are no operands,
    `without` says why: the tensor is an input ("put in"), or no formula is known for it ("no formula").
    """
    tensor = tensor_of(seen.trace, name)
    if len(at) != tensor.dim():
        where = ",".join(map(str, at))
        raise UserError(f"A cell of {name} has {tensor.dim()} indices.", where=where, fix="give that many")
    told: dict[str, Any] = {"value": shortest(part(tensor, at)), "says": None, "again": None, "operands": []}
    parents = seen.trace.parents(seen.opened.model)
    try:
        recipe = parents.of(name)
    except NoFormula:  # the page says so
        return told | {"without": "no formula"}
    if recipe is None:
        return told | {"without": "put in"}
    given = recipe.given(seen.trace.tensors, parents.weights)
    found = part_of(recipe, at, given)
    picked = {role: np.asarray(given[role][index]) for role, index in found.picks.items()}
    sources = recipe.tensors | {role: str(weight) for role, weight in recipe.weights.items()}
    told |= {"says": found.says, "again": _told(np.asarray(found.compute(*picked.values()), np.float32))}
    told["operands"] = [
        {
            "role": role,
            "name": sources[role],
            "tensor": role in recipe.tensors,
            "at": [_place(i) for i in found.picks[role]],
            "values": _told(values.ravel() if values.ndim else values),
        }
        for role, values in picked.items()
    ]
    return told


def _place(index: int | slice) -> int | str | None:
    """An index as it is sent: a number, `4:8`, or None for all."""
    if isinstance(index, int):
        return index
    return None if index.stop is None else f"{index.start}:{index.stop}"


def _told(array: Array) -> Any:
    """As `shortest`, of an array."""
    return shortest(torch.from_numpy(np.array(array)))
