"""Interventions: changes to a forward pass, made through the same probe that records it.

An intervention names the part of the model that it changes, as in a trace; `*` matches any part of a name:

    Silence("encoder.0.self", 2)      set the output of a head to 0
    Average("decoder.*.cross", 0)     make the weights of a head uniform over the positions that are not masked
    SetRow("decoder.1.cross", 0, 3, [0, 0.5, 0.5])   replace row 3 of the weights of a head
    CutResidual("encoder.1.ff")       remove the residual connection of a sub-layer
    RemoveMask()                      remove the look-ahead mask of the decoder (has an effect in teacher forcing)
    RemovePositions()                 set the positional encoding, or the angles of rotary positions, to 0
    ForceToken(3, 17)                 write token 17 in step 3

Interventions compose: all of a list act on the same pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import torch
from torch import Tensor

from glassformer.errors import Message, UserError
from glassformer.nn.probe import NO_PROBE, Graph, Probe, Recorder
from glassformer.reference.embeddings import intervened_on
from glassformer.reference.operation import Operation

# Tensors recorded before in the same part of the model, by their name in it.
Scope = dict[str, Tensor]


@dataclass(frozen=True)
class Intervention:
    """Replaces tensors of the parts of a model whose names match `at`.

    Class attributes:
        tensors: names of the tensors that it replaces.
        needs: name of another tensor of the same part that `apply` reads.
    """

    at: str = "*"
    tensors: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[str] = ""

    def matches(self, part: str) -> bool:
        """Return whether it acts on a part of the model, such as `encoder.0.self`."""
        return fnmatchcase(part, self.at)

    def apply(self, tensor: Tensor, row: int, scope: Scope) -> Tensor:
        """Return the replacement. `row` is the index of the tensor's first row, not 0 in step-by-step decoding."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.at}.{self.tensors[0]}"


@dataclass(frozen=True)
class HeadIntervention(Intervention):
    """An intervention on one head of an attention layer."""

    head: int = 0

    def select_head(self, tensor_BHQK: Tensor) -> tuple[Tensor, Tensor]:
        """Return a copy of the tensor, and the view of it that belongs to the head, B×Q×K."""
        heads = tensor_BHQK.shape[1]
        if not 0 <= self.head < heads:
            raise UserError(
                Message("{name} has no head {head}.", name=self.at, head=self.head),
                hint=Message("choose a number from 0 to {last}", last=heads - 1),
            )
        changed_BHQK = tensor_BHQK.clone()
        return changed_BHQK, changed_BHQK[:, self.head]


@dataclass(frozen=True)
class Silence(HeadIntervention):
    """Set the output of a head to 0. The attention of a recurrent decoder has one head: the context vector."""

    tensors = ("head_output", "context")

    def apply(self, tensor: Tensor, row: int, scope: Scope) -> Tensor:
        changed, part = self.select_head(tensor)
        part.zero_()
        return changed


@dataclass(frozen=True)
class Average(HeadIntervention):
    """Make the weights of a head uniform over the positions that are not masked."""

    tensors = ("weights",)
    needs = "masked_scores"

    def apply(self, tensor: Tensor, row: int, scope: Scope) -> Tensor:
        changed, part = self.select_head(tensor)
        scores = scope.get(self.needs)
        visible = torch.ones_like(tensor) if scores is None else (scores > float("-inf")).to(tensor)
        part.copy_((visible / visible.sum(dim=-1, keepdim=True))[:, self.head])
        return changed


@dataclass(frozen=True)
class SetRow(HeadIntervention):
    """Replace one row of the weights of a head."""

    row: int = 0
    weights: tuple[float, ...] = ()
    tensors = ("weights",)

    def apply(self, tensor: Tensor, row: int, scope: Scope) -> Tensor:
        changed, part = self.select_head(tensor)
        index = self.row - row
        if not 0 <= index < part.shape[1]:
            return tensor  # the row belongs to another step
        given = torch.tensor(self.weights, dtype=tensor.dtype, device=tensor.device)
        if len(given) > part.shape[2] and not given[part.shape[2] :].any():
            given = given[: part.shape[2]]  # in step-by-step decoding, later columns do not exist yet
        if len(given) != part.shape[2] or not (given.min() >= 0 and abs(float(given.sum()) - 1) <= 1e-3):
            weights = ", ".join(f"{weight:g}" for weight in self.weights)
            raise UserError(
                Message("These are not attention weights for {name}: {weights}.", name=str(self), weights=weights),
                hint=Message("give {n} weights from 0 to 1 with the sum 1", n=part.shape[2]),
            )
        part[:, index] = given
        return changed


@dataclass(frozen=True)
class CutResidual(Intervention):
    """Remove the residual connection of a sub-layer, such as `encoder.1.ff`."""

    tensors = ("residual",)
    needs = "output"

    def apply(self, tensor: Tensor, row: int, scope: Scope) -> Tensor:
        return scope[self.needs]


@dataclass(frozen=True)
class RemoveMask(Intervention):
    """Remove the look-ahead mask of the decoder, which has an effect in teacher forcing."""

    at: str = "decoder.*.self"
    tensors = ("mask",)

    def apply(self, tensor: Tensor, row: int, scope: Scope) -> Tensor:
        return torch.zeros_like(tensor)


@dataclass(frozen=True)
class RemovePositions(Intervention):
    """Set the positional encoding of the encoder, the decoder or both to 0.

    With rotary positions, set all angles to 0, so that queries and keys are not rotated.
    """

    tensors = ("positions", "rotation")
    needs = "rotation"

    def apply(self, tensor: Tensor, row: int, scope: Scope) -> Tensor:
        removed = torch.zeros_like(tensor)
        if self.needs in scope:  # sines and cosines, interleaved
            removed[:, 1::2] = 1
        return removed


@dataclass(frozen=True)
class ForceToken(Intervention):
    """Write a token in a step (counted from 0), whatever the model predicts."""

    at: str = field(default="", init=False)
    step: int = 0
    token: int = 0


@dataclass
class InterventionProbe(Probe):
    """A probe that makes interventions and passes the changed tensors to another probe."""

    interventions: Sequence[Intervention]
    inner: Probe = NO_PROBE
    row: int = 0
    part: str = ""
    made: set[Intervention] = field(default_factory=set)
    scopes: dict[str, Scope] = field(default_factory=dict)

    def at(self, *path: str | int) -> Probe:
        part = ".".join(map(str, ([self.part] if self.part else []) + list(path)))
        return InterventionProbe(self.interventions, self.inner.at(*path), self.row, part, self.made, self.scopes)

    def wants(self, name: str) -> bool:
        wanted = any(name in (*one.tensors, one.needs) for one in self._here())
        return self.inner.wants(name) or wanted

    def full(self, name: str) -> str:
        return self.inner.full(name)

    def __call__(self, name: str, tensor: Tensor, operation: Operation | None = None, *operands: Any) -> Tensor:
        scope = self.scopes.setdefault(self.part, {})
        for intervention in self._here():
            if name == intervention.needs:
                scope[name] = tensor
            if name in intervention.tensors:
                tensor = intervention.apply(tensor, self.row, scope)
                operation, operands = intervened_on(operation), ()
                self.made.add(intervention)
        return self.inner(name, tensor, operation, *operands)

    def _here(self) -> list[Intervention]:
        return [one for one in self.interventions if one.matches(self.part)]


class Interventions:
    """A `ProbeWrapper` that makes the same interventions in every step of a trace, and counts which were made."""

    def __init__(self, interventions: Sequence[Intervention]) -> None:
        self.interventions, self._made = interventions, set[Intervention]()

    def __call__(self, recorder: Recorder, row: int) -> Probe:
        return InterventionProbe(self.interventions, recorder, row, made=self._made)

    def refuse_unused(self, graph: Graph) -> None:
        """Raise a `UserError` if an intervention matched no tensor of the model."""
        for one in self.interventions:
            if one.tensors and one not in self._made:
                parts = [".".join(map(str, made.path)) for made in graph.values() if made.name in one.tensors]
                raise UserError(
                    Message("The model computes no tensor named {name}.", name=str(one)),
                    where=type(one).__name__,
                    hint=Message("choose one of {names}", names=", ".join(parts[:8]) + (" …" if parts[8:] else ""))
                    if parts
                    else Message("this model has no tensor {name} to change", name=one.tensors[0]),
                )


EXAMPLES = (
    "silence=encoder.0.self.2",
    "average=decoder.1.cross.0",
    "row=decoder.1.cross.0.3:0,0.5,0.5",
    "cut=encoder.1.ff",
    "no-mask",
    "no-positions=encoder",
    "force=3:chat",
)


def parse_intervention(text: str, token_of: Callable[[str], int]) -> Intervention:
    """Parse an intervention as written on the command line; `EXAMPLES` has one of each kind."""
    kind, _, value = text.partition("=")
    try:
        match kind:
            case "silence":
                return Silence(*_split_number(value))
            case "average":
                return Average(*_split_number(value))
            case "row":
                row_path, _, weights = value.partition(":")
                head_path, row = _split_number(row_path)
                return SetRow(*_split_number(head_path), row, tuple(map(float, weights.split(","))))
            case "cut":
                return CutResidual(value or "*")
            case "no-mask":
                return RemoveMask(value or RemoveMask.at)
            case "no-positions":
                return RemovePositions(value or "*")
            case "force":
                step, _, token = value.partition(":")
                if not step.isdecimal():
                    raise ValueError(step)
                return ForceToken(int(step), token_of(token))
    except ValueError:  # of int, float, `_split_number` or `token_of`: explained below
        pass
    raise UserError(
        Message("'{text}' is not a valid intervention.", text=text),
        where="--change",
        hint=Message("use one of the forms {forms}", forms=", ".join(EXAMPLES)),
    )


def _split_number(path: str) -> tuple[str, int]:
    """Split `encoder.0.self.2` into `encoder.0.self` and 2."""
    part, _, number = path.rpartition(".")
    if not part:
        raise ValueError(path)
    return part, int(number)
