"""The same for what has states: recurrent cells, what stands between them and around them, and a window.

Every formula of a step reads a row of `x` and the state before it, which is another row of `states`, or the `start`; a
network that begins with nothing has zeros there, and no operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.glass import formulas
from glassformer.glass.formulas import Array
from glassformer.studio.operands import ALL, Cell, Given, Index, Part

Picked = dict[str, Any]  # the operands, by the names of the arguments


def _before(at: Cell, given: Given, role: str) -> dict[str, Index]:
    """What stood before a step: all of it, or one number where `at` has a column."""
    row, *column = at
    rest: Index = tuple(column) or (ALL,)
    backwards = given.get("backwards", False)
    if row != (len(given[role]) - 1 if backwards else 0):
        return {role: (row + 1 if backwards else row - 1, *rest)}
    return {"start": rest} if given.get("start") is not None else {}


def _of(picked: Picked, *roles: str) -> Any:
    """The first of these that there is; 0 for what stands before a network that begins with nothing."""
    return next((picked[role] for role in roles if role in picked), 0.0)


def _part(says: str, picks: dict[str, Index], compute: Callable[[Picked], Any]) -> Part:
    return Part(says, picks, lambda *values: compute(dict(zip(picks, values, strict=True))))


# ------------------------------------------------------------------------------------------ one step of a cell


def _read(at: Cell, given: Given) -> tuple[str, dict[str, Index]]:
    """What a step reads: its token, and what attention found for it, where it looks before the step."""
    row, column = at
    picks: dict[str, Index] = {"x": (row,), "w": (column,), "b": (column,)}
    if "context" not in given:
        return "Σ x·w + b", picks
    return "Σ x·w + b + Σ context·c", picks | {"context": (0, row), "c": (column,)}


def _recalled(at: Cell, given: Given) -> tuple[str, dict[str, Index]]:
    """What the state before adds to it."""
    row, column = at
    before = _before((row,), given, "states")
    if not before:
        return "d", {"d": (column,)}
    (role,) = before
    return f"Σ {role}·u + d", before | {"u": (column,), "d": (column,)}


def _sum_read(picked: Picked) -> Any:
    looked = picked["context"] @ picked["c"] if "context" in picked else 0.0
    return picked["x"] @ picked["w"] + picked["b"] + looked


def _sum_recalled(picked: Picked) -> Any:
    return picked["d"] + (_of(picked, "states", "start") @ picked["u"] if "u" in picked else 0.0)


def _step(says: str, function: Callable[[Any], Any]) -> Callable[[Cell, Given], Part]:
    def of(at: Cell, given: Given) -> Part:
        (reads, read), (recalls, recalled) = _read(at, given), _recalled(at, given)
        inner = f"{reads} + {recalls}"
        return _part(
            says.format(inner), read | recalled, lambda picked: function(_sum_read(picked) + _sum_recalled(picked))
        )

    return of


def _reset_candidate(at: Cell, given: Given) -> Part:
    (reads, read), (recalls, recalled) = _read(at, given), _recalled(at, given)

    def compute(picked: Picked) -> Any:
        return np.tanh(_sum_read(picked) + picked["reset"] * _sum_recalled(picked))

    return _part(f"tanh({reads} + reset·({recalls}))", read | {"reset": at} | recalled, compute)


def _kept_and_new(at: Cell, given: Given) -> Part:
    before = _before(at, given, "cell")
    says = "".join(f"forget·{role} + " for role in before) + "enter·new"

    def compute(picked: Picked) -> Any:
        return picked["forget"] * _of(picked, "cell", "start") + picked["enter"] * picked["new"]

    return _part(says, {"forget": at, **before, "enter": at, "new": at}, compute)


def _between(at: Cell, given: Given) -> Part:
    before = _before(at, given, "states")
    says = "".join(f"update·{role} + " for role in before) + "(1 − update)·new"

    def compute(picked: Picked) -> Any:
        return picked["update"] * _of(picked, "states", "start") + (1 - picked["update"]) * picked["new"]

    return _part(says, {"update": at, **before, "new": at}, compute)


def _let_out(at: Cell, given: Given) -> Part:
    return Part("out·tanh(cell)", {"out": at, "cell": at}, formulas.let_out)


def _squeezed(at: Cell, given: Given) -> Part:
    return Part("tanh(x)", {"x": at}, formulas.squeezed)


# ------------------------------------------------------------------------------------------ around and between cells


def _joined(at: Cell, given: Given, turned: bool = False) -> Part:
    row, column = at
    width = given["there"].shape[-1]
    if column < width:
        return Part("there", {"there": (row, column)}, formulas.the_same)
    back = len(given["back"]) - 1 - row if turned else row
    return Part("back", {"back": (back, column - width)}, formulas.the_same)


def _turned(at: Cell, given: Given) -> Part:
    return Part("x", {"x": (len(given["x"]) - 1 - at[0], at[1])}, formulas.the_same)


def _last(at: Cell, given: Given) -> Part:
    return Part("x", {"x": (len(given["x"]) - 1, *at)}, formulas.the_same)


def _bridged(says: str, function: Callable[[Any], Any]) -> Callable[[Cell, Given], Part]:
    """The last states of both directions side by side, and the last cells where there are any."""

    def of(at: Cell, given: Given) -> Part:
        ends: dict[str, Index] = {"there": (len(given["there"]) - 1,), "back": (0,)}
        if "cell_there" in given:
            ends |= {"cell_there": (len(given["cell_there"]) - 1,), "cell_back": (0,)}

        def compute(picked: Picked) -> Any:
            return function(np.concatenate([picked[role] for role in ends]) @ picked["weight"] + picked["bias"])

        return _part(says.format("; ".join(ends)), ends | {"weight": at, "bias": at}, compute)

    return of


def _asked_before(at: Cell, given: Given) -> Part:
    before = _before(at[:1], given, "states")
    (role,) = before
    return Part(f"Σ {role}·weight", before | {"weight": at[1:]}, lambda state, weight: state @ weight)


def _combined(at: Cell, given: Given) -> Part:
    row, column = at
    picks: dict[str, Index] = {"context": (0, row), "state": (row,), "weight": (column,)}

    def compute(context: Array, state: Array, weight: Array) -> Any:
        return np.tanh(np.concatenate([context, state]) @ weight)

    return Part("tanh(Σ [context; state]·weight)", picks, compute)


# ------------------------------------------------------------------------------------------ a window


def _window(at: Cell, given: Given) -> Part:
    row, place, column = at
    read = row - given["size"] + 1 + place
    if read < 0:
        return Part("0: before the first token", {}, lambda: 0.0)
    return Part("x", {"x": (read, column)}, formulas.the_same)


def _squashed(at: Cell, given: Given) -> Part:
    row, column = at
    picks: dict[str, Index] = {"x": (row,), "weight": (column,), "bias": (column,)}
    return Part("tanh(Σ x·weight + bias)", picks, lambda x, weight, bias: np.tanh(x.ravel() @ weight + bias))


PARTS: dict[Callable[..., Array], Callable[[Cell, Given], Part]] = {
    formulas.summed: _step("{}", lambda z: z),
    formulas.gate: _step("σ({})", formulas.sigmoid),
    formulas.candidate: _step("tanh({})", np.tanh),
    formulas.reset_candidate: _reset_candidate,
    formulas.kept_and_new: _kept_and_new,
    formulas.let_out: _let_out,
    formulas.between: _between,
    formulas.squeezed: _squeezed,
    formulas.joined: _joined,
    formulas.joined_after_turning: lambda at, given: _joined(at, given, turned=True),
    formulas.turned_round: _turned,
    formulas.last_of: _last,
    formulas.bridged: _bridged("tanh(Σ [{}]·weight + bias)", np.tanh),
    formulas.bridged_cell: _bridged("Σ [{}]·weight + bias", lambda z: z),
    formulas.asked_before: _asked_before,
    formulas.combined: _combined,
    formulas.windows: _window,
    formulas.squashed: _squashed,
}
