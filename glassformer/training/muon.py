"""Muon (Jordan et al., 2024): momentum whose updates of weight matrices are orthogonalized.

The update of a matrix is a sum of rank-one directions of very different strength; Adam mostly follows the few strong
ones. Muon replaces all singular values of the update by values near 1, so that every direction is learned. It applies
to the matrices of linear layers. Adam updates embeddings, biases, normalization, the output layer and the projection of
image patches, which learned worse with Muon (docs/results/tasks.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from glassformer.nn.linear import Linear
from glassformer.nn.patches import PatchEmbedding

MOMENTUM = 0.95
ITERATIONS = 5
MAX_BATCH = 2**20  # entries of matrices that are orthogonalized together; large ones gain nothing from it
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # bring singular values from (0, 1] near 1 in five iterations


def matrices(model: nn.Module) -> dict[str, int]:
    """Return the names of the matrices that Muon updates, with the number of projections packed in each."""
    inputs = [module.project for module in model.modules() if isinstance(module, PatchEmbedding)]
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, Linear) and layer not in inputs and name != "output"
    }
    return {f"{name}.weight": layer.parts for name, layer in layers.items()}


class Matrix(NamedTuple):
    """A weight matrix of `parts` packed projections, with its gradient and momentum."""

    weight: Tensor
    gradient: Tensor
    momentum: Tensor
    parts: int

    @property
    def part_shape(self) -> tuple[int, int]:
        """The shape of one projection."""
        rows, columns = self.weight.shape
        return rows // self.parts, columns


def batches(matrices: Iterable[Matrix], *, count: int = 1) -> list[list[Matrix]]:
    """Group matrices for `update_`, each group of one `part_shape`.

    A shape has about `count` groups, one per thread, and more if `MAX_BATCH` requires it.
    """
    by_shape: dict[tuple[int, int], list[Matrix]] = {}
    for matrix in matrices:
        by_shape.setdefault(matrix.part_shape, []).append(matrix)
    groups = []
    for same in by_shape.values():
        size = max(1, min(-(-len(same) // count), MAX_BATCH // same[0].weight.numel()))
        groups += [same[start : start + size] for start in range(0, len(same), size)]
    return groups


def update_(matrices: Sequence[Matrix], *, lr: float, dtype: torch.dtype) -> None:
    """Apply one update to matrices of one `part_shape`. Their projections are orthogonalized together."""
    directions: list[Tensor] = []
    for matrix in matrices:
        matrix.momentum.lerp_(matrix.gradient, 1 - MOMENTUM)
        directions += matrix.gradient.lerp(matrix.momentum, MOMENTUM).to(dtype).chunk(matrix.parts)
    rows, columns = matrices[0].part_shape
    scale = math.sqrt(max(1.0, rows / columns))
    weights = [part for matrix in matrices for part in matrix.weight.chunk(matrix.parts)]
    for weight, direction in zip(weights, orthogonalize(torch.stack(directions)), strict=True):
        weight.add_(direction, alpha=-lr * scale)


def orthogonalize(matrices: Tensor) -> Tensor:
    """Return matrices with the singular vectors of these, N×R×C, and singular values near 1 (Newton–Schulz)."""
    a, b, c = COEFFICIENTS
    rows, columns = matrices.shape[1:]
    x = matrices.mT if rows > columns else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if rows > columns else x
