"""Rules that map the weights of another library to ours. The same rules are used for import and export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glassformer.errors import UserError

Shape = tuple[int, ...]  # −1 for the size that follows from the others


@dataclass(frozen=True)
class VocabularyMap:
    """The order of the token ids: here padding, start and end come first.

    Attributes:
        order: for each of our token ids, the id in the other library.
        added: our ids that the other library lacks; each copies the entry that `order` names.
    """

    order: list[int]
    added: frozenset[int] = frozenset()

    @classmethod
    def identity(cls, entries: int) -> VocabularyMap:
        return cls(list(range(entries)))

    def import_rows(self, rows: Tensor) -> Tensor:
        """Return the rows of a vocabulary matrix of the other library in our order."""
        return rows[self.order]

    def export_rows(self, rows: Tensor) -> Tensor:
        """Return our rows of a vocabulary matrix in the order of the other library, without added entries."""
        kept = [number for number in range(len(self.order)) if number not in self.added]
        exported = torch.empty_like(rows[: len(kept)])
        exported[[self.order[number] for number in kept]] = rows[kept]
        return exported


@dataclass(frozen=True)
class WeightRule:
    """One of our weights and the weights of the other library that are concatenated to it along the first axis.

    Attributes:
        transposed: the other library stores inputs × outputs.
        vocab_rows: each row belongs to one token of the vocabulary.
        shapes: our shape and that of the other library, if they differ.
        feature_axes: our axes that are dimensions of the residual stream, which may be in another order there.
    """

    ours: str
    external: tuple[str, ...]
    transposed: bool = False
    vocab_rows: bool = False
    shapes: tuple[Shape, Shape] | None = None
    feature_axes: tuple[int, ...] = ()


def linear_rules(
    ours: str, *external: str, transposed: bool = False, feature_axes: tuple[int, ...] = ()
) -> list[WeightRule]:
    """Return the rules for the weight and bias of a linear layer or a normalization."""
    weights, biases = (tuple(f"{name}.{part}" for name in external) for part in ("weight", "bias"))
    bias_axes = (0,) if 0 in feature_axes else ()  # the bias has the output axis only, which is the first
    return [
        WeightRule(f"{ours}.weight", weights, transposed=transposed, feature_axes=feature_axes),
        WeightRule(f"{ours}.bias", biases, feature_axes=bias_axes),
    ]


def import_weights(
    rules: Sequence[WeightRule],
    external: dict[str, Tensor],
    vocabulary: VocabularyMap,
    feature_order: Tensor | None,
    where: Path,
) -> dict[str, Tensor]:
    """Return our weights. `feature_order`: see `HuggingFaceConverter`."""
    ours = {}
    for rule in rules:
        if missing := [name for name in rule.external if name not in external]:
            hint = "use the complete folder that save_pretrained wrote"
            raise UserError(f"The weight {missing[0]} is missing.", where=str(where), hint=hint)
        if integers := [name for name in rule.external if not external[name].is_floating_point()]:
            message = f"The weights are not floating-point: {integers[0]} has the type {external[integers[0]].dtype}."
            raise UserError(message, where=str(where), hint="save the model again in float32, float16 or bfloat16")
        try:
            tensor = torch.cat(
                [external[name].T if rule.transposed else external[name] for name in rule.external]
            ).float()
            if rule.shapes is not None:
                tensor = tensor.reshape(rule.shapes[0])
        except RuntimeError:
            message = f"The size of {rule.external[0]} does not match config.json."
            raise UserError(message, where=str(where), hint="keep the files of one model together") from None
        try:
            if rule.vocab_rows:
                tensor = vocabulary.import_rows(tensor)
            if feature_order is not None:
                for axis in rule.feature_axes:
                    tensor = tensor.index_select(axis, feature_order)
        except (IndexError, RuntimeError):
            message = f"{rule.external[0]} has fewer rows or columns than config.json says."
            raise UserError(message, where=str(where), hint="keep the files of one model together") from None
        ours[rule.ours] = tensor.contiguous()
    return ours


def export_weights(
    rules: Sequence[WeightRule], ours: dict[str, Tensor], vocabulary: VocabularyMap, feature_order: Tensor | None
) -> dict[str, Tensor]:
    """Return the weights of the other library: the inverse of `import_weights`."""
    external = {}
    for rule in rules:
        tensor = ours[rule.ours]
        if feature_order is not None:
            for axis in rule.feature_axes:
                tensor = tensor.index_select(axis, torch.argsort(feature_order))
        if rule.vocab_rows:
            tensor = vocabulary.export_rows(tensor)
        if rule.shapes is not None:
            tensor = tensor.reshape(rule.shapes[1])
        for name, part in zip(rule.external, tensor.chunk(len(rule.external)), strict=True):
            external[name] = (part.T if rule.transposed else part).contiguous()
    return external
