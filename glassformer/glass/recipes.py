"""A formula with what it is given: enough to compute a tensor again, here or in a program of a few lines."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from glassformer.errors import UserError
from glassformer.glass import formulas
from glassformer.glass.formulas import Array, Formula


class NoFormula(UserError):
    """A tensor for which no formula is defined, or whose parents were not recorded.

    Callers that show many tensors catch it and say which one is missing. A test over all families shows that no
    complete trace raises it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            "There is no formula for this tensor.", where=name, fix="look at its numbers; another tensor may have one"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return NoFormula, (self.where,)


@dataclass(frozen=True)
class Weight:
    """A weight by its name in model.safetensors; some of its rows, where several matrices lie in one."""

    name: str
    rows: tuple[int, int] | None = None

    def __str__(self) -> str:
        rows = "" if self.rows is None else f"[{self.rows[0]}:{self.rows[1]}]"
        return f'model["{self.name}"]{rows}'


@dataclass(frozen=True)
class Recipe:
    """A formula and what it is given: tensors of the trace, weights of the model, and a few plain numbers."""

    formula: Formula
    tensors: dict[str, str] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)

    def compute(self, trace: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> Array:
        """The tensor again, from its parents."""
        return self.formula.compute(**self.given(trace, model))

    def given(self, trace: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> dict[str, Any]:
        """What the formula is given, by the names of its arguments."""
        given: dict[str, Any] = dict(self.numbers)
        given |= {name: trace[tensor].numpy() for name, tensor in self.tensors.items()}
        for name, weight in self.weights.items():
            whole = model[weight.name].detach().cpu().float().numpy()
            given[name] = whole if weight.rows is None else whole[slice(*weight.rows)]
        return given

    def as_numpy(self) -> str:
        """The same as a program for whoever has trace.npz and model.safetensors and nothing else."""
        given = {name: f'trace["{tensor}"]' for name, tensor in self.tensors.items()}
        given |= {name: str(weight) for name, weight in self.weights.items()}
        given |= {name: repr(number) for name, number in self.numbers.items()}
        arguments = ", ".join(f"{name}={expression}" for name, expression in given.items())
        call = f"result = {self.formula.compute.__name__}({arguments})"
        loads = ["import numpy as np", "", 'trace = np.load("trace.npz")']
        if self.weights:
            loads.insert(1, "from safetensors.numpy import load_file")
            loads.append('model = load_file("model.safetensors")')
        return "\n".join([*loads, "", "", *map(_source, _needed(self.formula.compute)), call, ""])


def _needed(compute: Callable[..., Array]) -> list[Callable[..., Array]]:
    """A formula's function, after those that it calls."""
    called = [getattr(formulas, name, None) for name in compute.__code__.co_names]
    inner = [function for other in called if inspect.isfunction(other) for function in _needed(other)]
    return [*dict.fromkeys(inner), compute]


def _source(function: Callable[..., Array]) -> str:
    """Without type hints, which a program of ten lines does not need."""
    text = re.sub(r": (?:Array|Any|int|float|bool)(?: \| None)?(?=[,=) ])", "", inspect.getsource(function))
    return re.sub(r" -> Array:.*", ":", text) + "\n"
