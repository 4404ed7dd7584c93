"""The computation of a tensor as a NumPy program that reads trace.npz and model.safetensors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from glassformer.nn.probe import Provenance


def numpy_code(made: Provenance) -> str:
    """Return a program whose `result` is the tensor."""
    given = {role: f'trace["{tensor}"]' for role, tensor in made.tensors.items()}
    given |= {role: str(weight) for role, weight in made.weights.items()}
    given |= {role: repr(constant) for role, constant in made.constants.items()}
    compute = made.operation.compute
    arguments = ", ".join(f"{role}={given[role]}" for role in made.operation.operands if role in given)
    loads = ["import numpy as np", "", 'trace = np.load("trace.npz")']
    if made.weights:
        loads.insert(1, "from safetensors.numpy import load_file")
        loads.append('model = load_file("model.safetensors")')
    call = f"result = {compute.__name__}({arguments})"
    return "\n".join([*loads, "", "", *map(_source, _with_callees(compute)), call, ""])


def _with_callees(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return a function preceded by the functions that it calls."""
    called = [function.__globals__.get(name) for name in function.__code__.co_names]
    inner = [each for other in called if inspect.isfunction(other) for each in _with_callees(other)]
    return [*dict.fromkeys(inner), function]


def _source(function: Callable[..., Any]) -> str:
    """Return the source without type hints and docstring."""
    text = re.sub(r": (?:Array|Any|int|float|bool)(?: \| None)?(?=[,=) \n])", "", inspect.getsource(function))
    return re.sub(r" -> Array:.*", ":", text) + "\n"
