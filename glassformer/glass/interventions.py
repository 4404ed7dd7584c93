"""What would have happened if: changes to a pass, through the same probe that looks at it.

A change names what it changes, as a trace does, and `*` stands for any part of a name:

    Silence("encoder.0.self", 2)      the head says nothing: its output becomes 0
    Average("decoder.*.cross", 0)     the head looks everywhere alike, as far as it may look
    SetRow("decoder.1.cross", 0, 3, [0, 0.5, 0.5])   row 3 of the head looks there
    CutResidual("encoder.1.ff")       what the sub-layer read is not added to what it gives
    RemoveMask()                      the decoder sees the future, where there is one: in teacher forcing
    RemovePositions()                 every token stands nowhere
    ForceToken(3, 17)                 token 17 is written in step 3, whatever the model thinks

Changes compose: all of a list act on the same pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import Message, UserError
from glassformer.nn.probe import NO_PROBE, Probe, Recorder
from glassformer.reference.embeddings import intervened_on
from glassformer.reference.operation import Operation


@dataclass(frozen=True)
class Change:
    """Puts another tensor in the place of one that has a name."""

    def names(self) -> str:
        """The tensors that it changes, as a pattern; empty for one that changes none."""
        raise NotImplementedError

    def needs(self) -> str:
        """Tensors, computed before those, that it goes by."""
        return ""

    def changes(self, name: str) -> bool:
        """Whether it changes the tensor of this name."""
        return fnmatchcase(name, self.names())

    def apply(self, name: str, tensor: Tensor, row: int, seen: dict[str, Tensor]) -> Tensor:
        """The tensor to go on with. `row` is the number of its first row, which is not 0 in step-by-step decoding."""
        raise NotImplementedError


@dataclass(frozen=True)
class OfHead(Change):
    """A change to one head of an attention, `encoder.0.self`."""

    at: str
    head: int = 0

    def of_head(self, name: str, tensor_BHQK: Tensor) -> tuple[Tensor, Tensor]:
        """A copy to change, and its part of this head, B×Q×K."""
        if not 0 <= self.head < tensor_BHQK.shape[1]:
            raise UserError(
                Message("{name} has no head {head}.", name=name.rpartition(".")[0], head=self.head),
                hint=Message("choose a number from 0 to {last}", last=tensor_BHQK.shape[1] - 1),
            )
        changed_BHQK = tensor_BHQK.clone()
        return changed_BHQK, changed_BHQK[:, self.head]


@dataclass(frozen=True)
class Silence(OfHead):
    """The head says nothing: its output becomes 0."""

    def names(self) -> str:
        return f"{self.at}.head_output"

    def changes(self, name: str) -> bool:
        """The one head of a recurrent decoder's attention gives the context vector."""
        return super().changes(name) or fnmatchcase(name, f"{self.at}.context")

    def apply(self, name: str, tensor: Tensor, row: int, seen: dict[str, Tensor]) -> Tensor:
        changed, part = self.of_head(name, tensor)
        part.zero_()
        return changed


@dataclass(frozen=True)
class Average(OfHead):
    """The head looks everywhere alike, as far as it may look."""

    def names(self) -> str:
        return f"{self.at}.weights"

    def needs(self) -> str:
        return f"{self.at}.masked_scores"

    def apply(self, name: str, tensor: Tensor, row: int, seen: dict[str, Tensor]) -> Tensor:
        changed, part = self.of_head(name, tensor)
        scores = seen.get(name.removesuffix("weights") + "masked_scores")
        visible = torch.ones_like(tensor) if scores is None else (scores > float("-inf")).to(tensor)
        part.copy_((visible / visible.sum(dim=-1, keepdim=True))[:, self.head])
        return changed


@dataclass(frozen=True)
class SetRow(OfHead):
    """One row of a head's weights becomes another."""

    row: int = 0
    weights: tuple[float, ...] = ()

    def names(self) -> str:
        return f"{self.at}.weights"

    def apply(self, name: str, tensor: Tensor, row: int, seen: dict[str, Tensor]) -> Tensor:
        changed, part = self.of_head(name, tensor)
        place = self.row - row
        if not 0 <= place < part.shape[1]:
            return tensor  # that row is of another step
        given = torch.tensor(self.weights, dtype=tensor.dtype, device=tensor.device)
        if len(given) > part.shape[2] and not given[part.shape[2] :].any():
            given = given[: part.shape[2]]  # step by step the columns to come do not exist yet
        if len(given) != part.shape[2] or not (given.min() >= 0 and abs(float(given.sum()) - 1) <= 1e-3):
            weights = ", ".join(f"{weight:g}" for weight in self.weights)
            raise UserError(
                Message("These are not attention weights for {name}: {weights}.", name=name, weights=weights),
                hint=Message("give {n} weights from 0 to 1 with the sum 1", n=part.shape[2]),
            )
        part[:, place] = given
        return changed


@dataclass(frozen=True)
class CutResidual(Change):
    """What a sub-layer read is not added to what it gives: `encoder.1.ff`."""

    at: str = "*"

    def names(self) -> str:
        return f"{self.at}.residual"

    def needs(self) -> str:
        return f"{self.at}.output"

    def apply(self, name: str, tensor: Tensor, row: int, seen: dict[str, Tensor]) -> Tensor:
        return seen[name.removesuffix("residual") + "output"]


@dataclass(frozen=True)
class RemoveMask(Change):
    """The decoder sees the future, where there is one: in teacher forcing."""

    at: str = "decoder.*.self"

    def names(self) -> str:
        return f"{self.at}.mask"

    def apply(self, name: str, tensor: Tensor, row: int, seen: dict[str, Tensor]) -> Tensor:
        return torch.zeros_like(tensor)


@dataclass(frozen=True)
class RemovePositions(Change):
    """Every token of a side stands nowhere."""

    side: str = "*"

    def names(self) -> str:
        return f"{self.side}.positions"

    def apply(self, name: str, tensor: Tensor, row: int, seen: dict[str, Tensor]) -> Tensor:
        return torch.zeros_like(tensor)


@dataclass(frozen=True)
class ForceToken(Change):
    """A token is written in a step, whatever the model thinks. Steps count from 0."""

    step: int
    token: int

    def names(self) -> str:
        return ""


@dataclass
class Intervening(Probe):
    """Makes the changes, and shows what came of them to another probe."""

    changes: Sequence[Change]
    inner: Probe = NO_PROBE
    row: int = 0
    prefix: str = ""
    seen: dict[str, Tensor] = field(default_factory=dict)
    made: set[Change] = field(default_factory=set)

    def at(self, *path: str | int) -> Probe:
        prefix = self.prefix + "".join(f"{part}." for part in path)
        return Intervening(self.changes, self.inner.at(*path), self.row, prefix, self.seen, self.made)

    def wants(self, name: str) -> bool:
        full = self.prefix + name
        wanted = any(change.changes(full) or fnmatchcase(full, change.needs()) for change in self.changes)
        return self.inner.wants(name) or wanted

    def full(self, name: str) -> str:
        return self.inner.full(name)

    def __call__(self, name: str, tensor: Tensor, operation: Operation | None = None, *operands: Any) -> Tensor:
        full = self.prefix + name
        for change in self.changes:
            if fnmatchcase(full, change.needs()):
                self.seen[full] = tensor
            if change.changes(full):
                tensor = change.apply(full, tensor, self.row, self.seen)
                operation, operands = intervened_on(operation), ()
                self.made.add(change)
        return self.inner(name, tensor, operation, *operands)


class Making:
    """Watches every step of a trace with the same changes, and knows in the end which of them were made."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes, self._made = changes, set[Change]()

    def __call__(self, recorder: Recorder, row: int) -> Probe:
        return Intervening(self.changes, recorder, row, made=self._made)

    def refuse_idle(self, names: Sequence[str]) -> None:
        """A change of what this model does not have is a mistake, not a change of nothing."""
        for change in self.changes:
            if change.names() and change not in self._made:
                kinds = {name.rpartition(".")[2] for name in names}
                wanted = change.names().rpartition(".")[2]
                some = [name.rpartition(".")[0] for name in names if name.endswith(f".{wanted}")]
                raise UserError(
                    Message("The model computes no tensor named {name}.", name=change.names()),
                    where=type(change).__name__,
                    hint=Message("choose one of {names}", names=", ".join(some[:8]) + (" …" if some[8:] else ""))
                    if wanted in kinds
                    else Message("this model has no tensor {name} to change", name=wanted),
                )


FORMS = (
    "silence=encoder.0.self.2",
    "average=decoder.1.cross.0",
    "row=decoder.1.cross.0.3:0,0.5,0.5",
    "cut=encoder.1.ff",
    "no-mask",
    "no-positions=encoder",
    "force=3:chat",
)


def read_change(text: str, token_of: Callable[[str], int]) -> Change:
    """A change as it is written on a command line; FORMS has an example of each."""
    what, _, where = text.partition("=")
    try:
        match what:
            case "silence":
                return Silence(*_place(where))
            case "average":
                return Average(*_place(where))
            case "row":
                at, _, weights = where.partition(":")
                head, row = _place(at)
                return SetRow(*_place(head), row, tuple(map(float, weights.split(","))))
            case "cut":
                return CutResidual(where or "*")
            case "no-mask":
                return RemoveMask(where or RemoveMask.at)
            case "no-positions":
                return RemovePositions(where or RemovePositions.side)
            case "force":
                step, _, piece = where.partition(":")
                if not step.isdecimal():
                    raise ValueError(step)
                return ForceToken(int(step), token_of(piece))
    except ValueError:  # of int, float, `_place` or `token_of`: it is explained below
        pass
    raise UserError(
        Message("'{text}' is not a valid intervention.", text=text),
        where="--change",
        hint=Message("use one of the forms {forms}", forms=", ".join(FORMS)),
    )


def _place(where: str) -> tuple[str, int]:
    """`encoder.0.self.2` is the part `encoder.0.self` and its number 2."""
    at, _, number = where.rpartition(".")
    if not at:
        raise ValueError(where)
    return at, int(number)
