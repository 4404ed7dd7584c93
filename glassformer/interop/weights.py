"""How weights that another tool keeps become ours, and go back: the same rules, read from either side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glassformer.errors import UserError

Shape = tuple[int, ...]  # −1 for what follows from the rest


@dataclass(frozen=True)
class Vocabulary:
    """Entries of theirs in our order, in which padding, beginning and end stand first.

    order  for each entry of ours, its number there
    added  entries of ours that they lack: each is a copy of the one that `order` names
    """

    order: list[int]
    added: frozenset[int] = frozenset()

    @classmethod
    def same(cls, entries: int) -> Vocabulary:
        return cls(list(range(entries)))

    def ours(self, rows: Tensor) -> Tensor:
        return rows[self.order]

    def theirs(self, rows: Tensor) -> Tensor:
        kept = [number for number in range(len(self.order)) if number not in self.added]
        back = torch.empty_like(rows[: len(kept)])
        back[[self.order[number] for number in kept]] = rows[kept]
        return back


@dataclass(frozen=True)
class Weight:
    """One of our weights, and those of theirs that it is made of, one below the other."""

    ours: str
    theirs: tuple[str, ...]
    turned: bool = False  # theirs have an input a row
    entries: bool = False  # a row is an entry of the vocabulary
    shapes: tuple[Shape, Shape] | None = None  # ours and theirs, where the same numbers lie in another shape
    stream: tuple[int, ...] = ()  # axes of ours that are features of the residual stream


def layer(ours: str, *theirs: str, **how: bool | tuple[int, ...]) -> list[Weight]:
    """Weight and bias of a linear layer or a norm. The bias lies along the outputs, the first axis."""
    weight = Weight(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), **how)  # type: ignore[arg-type]
    stream = (0,) if 0 in weight.stream else ()
    return [weight, Weight(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs), stream=stream)]


def to_ours(
    rules: Sequence[Weight], theirs: dict[str, Tensor], vocabulary: Vocabulary, stream: Tensor | None, where: Path
) -> dict[str, Tensor]:
    """stream  of each feature of ours, its number there; None where they are the same"""
    ours = {}
    for rule in rules:
        if missing := [name for name in rule.theirs if name not in theirs]:
            hint = "give a whole model, as save_pretrained writes it"
            raise UserError(f"The weights lack {missing[0]}.", where=str(where), hint=hint)
        if integers := [name for name in rule.theirs if not theirs[name].is_floating_point()]:
            what = (
                f"The weights are not floating-point numbers: {integers[0]} has the type {theirs[integers[0]].dtype}."
            )
            raise UserError(what, where=str(where), hint="save the model again in float32, float16 or bfloat16")
        try:
            tensor = torch.cat([theirs[name].T if rule.turned else theirs[name] for name in rule.theirs]).float()
            if rule.shapes is not None:
                tensor = tensor.reshape(rule.shapes[0])
        except RuntimeError:
            what = f"{rule.theirs[0]} has not the size that config.json says."
            raise UserError(what, where=str(where), hint="keep the files of one model together") from None
        try:
            if rule.entries:
                tensor = vocabulary.ours(tensor)
            if stream is not None:
                for axis in rule.stream:
                    tensor = tensor.index_select(axis, stream)
        except (IndexError, RuntimeError):
            what = f"{rule.theirs[0]} has fewer rows or columns than config.json says."
            raise UserError(what, where=str(where), hint="keep the files of one model together") from None
        ours[rule.ours] = tensor.contiguous()
    return ours


def to_theirs(
    rules: Sequence[Weight], ours: dict[str, Tensor], vocabulary: Vocabulary, stream: Tensor | None
) -> dict[str, Tensor]:
    theirs = {}
    for rule in rules:
        tensor = ours[rule.ours]
        if stream is not None:
            for axis in rule.stream:
                tensor = tensor.index_select(axis, torch.argsort(stream))
        if rule.entries:
            tensor = vocabulary.theirs(tensor)
        if rule.shapes is not None:
            tensor = tensor.reshape(rule.shapes[1])
        for name, part in zip(rule.theirs, tensor.chunk(len(rule.theirs)), strict=True):
            theirs[name] = (part.T if rule.turned else part).contiguous()
    return theirs
