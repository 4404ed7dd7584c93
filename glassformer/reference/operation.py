"""`Operation`: a formula as text, its computation in NumPy, and what one entry of the result depends on.

An operation is computed for one sentence at a time: T×D hidden states, H×T×E where there are heads, T×V logits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Coordinates = tuple[int, ...]  # of one entry
Index = tuple[int | slice, ...]
ALL = slice(None)

LIKE = "like"  # an operand of this name gives its shape only, not its values


@dataclass(frozen=True)
class Entry:
    """How one entry of a result is computed from entries of the operands.

    Attributes:
        formula: the formula in which an operand's name stands for the entries picked from it.
        picks: for each operand that is needed, the index of the entries.
        compute: computes the entry from the picked entries (by name, axes kept); the operation's own if None.
        within: index of the entry in the result of `compute`; the first entry if None.
    """

    formula: str
    picks: dict[str, Index]
    compute: Callable[..., Any] | None = None
    within: Index | None = None


@dataclass(frozen=True)
class Operation:
    """One operation of a model.

    Attributes:
        formula: the formula in the notation of the paper.
        compute: the same in NumPy. Its parameters are the operands; one with a default may be absent.
        entry: `entry(index, **operands)` says what one entry depends on.
        batched: whether a model computes one result per sentence (False: one for the whole batch).
        position_axis: the axis of the result along which the tokens lie.
        so_far: in step-by-step decoding, the operation that also covers the keys not written yet.
        unwritten: in step-by-step decoding, the value at keys not written yet.
        replaces: for a tensor that an intervention set, the operation that would have computed it.
        symbols: the letters of the formula that stand for weights, by the name of the operand.
    """

    formula: str
    compute: Callable[..., Array]
    entry: Callable[..., Entry]
    batched: bool = True
    position_axis: int = -2
    so_far: Operation | None = None
    unwritten: float = -np.inf
    replaces: Operation | None = None
    symbols: Mapping[str, str] = field(default_factory=dict, hash=False)

    @cached_property
    def operands(self) -> dict[str, bool]:
        """The names of the operands in order, each with whether it may be absent."""
        parameters = inspect.signature(self.compute).parameters.values()
        return {each.name: each.default is not inspect.Parameter.empty for each in parameters}

    def entry_value(self, index: Coordinates, operands: dict[str, Any]) -> tuple[Entry, dict[str, Array], Any]:
        """Compute one entry from only those operand entries that it depends on.

        Returns how it is computed, the picked entries by operand, and the value.
        """
        entry = self.entry(index, **operands)
        picked = {name: operands[name][_keep_axes(at)] for name, at in entry.picks.items()}
        constants = {name: value for name, value in operands.items() if not isinstance(value, np.ndarray)}
        if entry.compute is not None:
            result = np.asarray(entry.compute(**picked))
        else:
            result = np.asarray(self.compute(**(constants | picked)))
        within = entry.within if entry.within is not None else (0,) * result.ndim
        values = {name: operands[name][at] for name, at in entry.picks.items()}
        return entry, values, result[within]


def _keep_axes(index: Index) -> tuple[slice, ...]:
    """Return an index that selects the same entries and keeps every axis."""
    return tuple(slice(i, i + 1) if isinstance(i, int) else i for i in index)
