"""Probes: access to every intermediate tensor of a forward pass.

A probe is passed down explicitly. A module calls it for each tensor of interest and states the reference
operation and the operands that the tensor was computed from:

    scores = probe("scores", query @ key.mT, ops.dot_products, query, key)

The probe may record the tensor and may return another one in its place. `probe.at("encoder", 0)` returns the probe
of an inner part, so that full names read `encoder.0.self.weights`. An operand is one of

    a tensor         that was recorded under a name before (found by its memory, so views of it count)
    a parameter      or buffer of the model, or some `Rows` of one
    a string         the name of a tensor in the same scope, which may be recorded later (`Named`: in any scope)
    anything else    a constant

Without a probe (`NO_PROBE`) none of this costs more than the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from torch import Tensor, nn

from glassformer.reference.layers import same
from glassformer.reference.operation import Operation

Path = tuple[str | int, ...]


class Rows(NamedTuple):
    """Some rows of a parameter: one of several projections that are packed in one matrix."""

    parameter: Tensor
    start: int
    stop: int


class Named(NamedTuple):
    """A recorded tensor by its full name, as an operand."""

    name: str


class Probe:
    """Base class of all probes; records nothing and changes nothing."""

    def __call__(self, name: str, tensor: Tensor, operation: Operation | None = None, *operands: Any) -> Tensor:
        """Receive a tensor; return the tensor that the model continues with."""
        return tensor

    def at(self, *path: str | int) -> Probe:
        """Return the probe of an inner part."""
        return self

    def wants(self, name: str) -> bool:
        """Return whether the probe uses a tensor, so that the model must compute it explicitly."""
        return False

    def full(self, name: str) -> str:
        """Return the full name of a tensor of this part."""
        return name


NO_PROBE = Probe()


@dataclass(frozen=True)
class Weight:
    """A parameter by its name in model.safetensors, or some of its rows."""

    name: str
    rows: tuple[int, int] | None = None

    def __str__(self) -> str:
        rows = "" if self.rows is None else f"[{self.rows[0]}:{self.rows[1]}]"
        return f'model["{self.name}"]{rows}'


@dataclass(frozen=True)
class Provenance:
    """Where a tensor comes from: its place in the model, the operation, and the operands by their role.

    Attributes:
        path: the scope in which it was recorded, such as `("encoder", 0, "self")`.
        name: its name in that scope, such as `scores`.
        tensors: operands that are recorded tensors, by full name.
        weights: operands that are parameters.
        constants: all other operands.
    """

    path: Path
    name: str
    operation: Operation
    tensors: dict[str, str] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)


class ProvenanceError(LookupError):
    """A named tensor has no provenance, or a wrong one."""


class Recorder(Probe):
    """Records every tensor whose full name matches a pattern (`*`, `decoder.*.cross.weights`), in order.

    Args:
        pattern: the names to record.
        copy: copy the tensors. False is safe if no tensor is overwritten after it was recorded.
        model: the model that is recorded. With it, `graph` holds the provenance of every tensor.
        known: a recorder of an earlier part of the same pass, whose tensors may be operands here.
    """

    def __init__(
        self, pattern: str = "*", *, copy: bool = True, model: nn.Module | None = None, known: Recorder | None = None
    ) -> None:
        self.pattern, self.copy = pattern, copy
        self.tensors: dict[str, Tensor] = {}
        self.graph: dict[str, Provenance] = {}
        self._path: Path = ()
        self._parameters = None if model is None else parameter_names(model)
        # Recorded tensors by their memory. They are kept alive here, so no other tensor can take their place.
        self._recorded: dict[tuple[int, int], tuple[str, Tensor]] = {} if known is None else known._recorded

    def at(self, *path: str | int) -> Recorder:
        inner = Recorder(self.pattern, copy=self.copy)
        inner.tensors, inner.graph = self.tensors, self.graph
        inner._parameters, inner._recorded = self._parameters, self._recorded
        inner._path = (*self._path, *path)
        return inner

    def wants(self, name: str) -> bool:
        return fnmatchcase(self.full(name), self.pattern)

    def __call__(self, name: str, tensor: Tensor, operation: Operation | None = None, *operands: Any) -> Tensor:
        if not self.wants(name):
            return tensor
        full = self.full(name)
        seen = tensor.detach()
        self.tensors[full] = seen.clone() if self.copy else seen
        if self._parameters is not None:
            self.graph[full] = self._provenance(name, tensor, operation, operands)
            self._recorded[memory_of(tensor)] = full, tensor
        return tensor

    def full(self, name: str) -> str:
        return ".".join(map(str, (*self._path, name)))

    def _provenance(
        self, name: str, tensor: Tensor, operation: Operation | None, operands: tuple[Any, ...]
    ) -> Provenance:
        full = self.full(name)
        if operation is None:  # another name for a tensor that was recorded before
            operation, operands = same, (tensor,)
        roles = list(operation.operands)
        if len(operands) > len(roles):
            raise ProvenanceError(f"{full} has more operands than its operation: {', '.join(roles)}")
        found = Provenance(self._path, name, operation)
        for role, operand in zip(roles, operands, strict=False):
            self._add(found, full, role, operand)
        return found

    def _add(self, found: Provenance, full: str, role: str, operand: Any) -> None:
        """Add one operand to the tensors, weights or constants of the provenance."""
        assert self._parameters is not None
        if operand is None:
            if not found.operation.operands[role]:
                raise ProvenanceError(f"operand {role} of {full} is missing")
        elif isinstance(operand, Rows):
            found.weights[role] = Weight(self._parameters[id(operand.parameter)], (operand.start, operand.stop))
        elif isinstance(operand, str):
            found.tensors[role] = self.full(operand)
        elif isinstance(operand, Named):
            found.tensors[role] = operand.name
        elif not isinstance(operand, Tensor):
            found.constants[role] = operand
        elif id(operand) in self._parameters:
            found.weights[role] = Weight(self._parameters[id(operand)])
        elif memory_of(operand) in self._recorded:
            found.tensors[role] = self._recorded[memory_of(operand)][0]
        else:
            raise ProvenanceError(f"the operand {role} of {full} was not recorded under a name")


def parameter_names(model: nn.Module) -> dict[int, str]:
    """Return the names of parameters and buffers by their identity. A shared parameter has the first of its names."""
    return {id(tensor): name for name, tensor in named_weights(model)}


def named_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield every parameter and buffer of a model with its name."""
    yield from model.named_parameters()
    yield from model.named_buffers()


def memory_of(tensor: Tensor) -> tuple[int, int]:
    """Return address and size of a tensor's memory, which identify a tensor that is kept alive. Views share them."""
    return tensor.data_ptr(), tensor.numel()


Graph = Mapping[str, Provenance]
