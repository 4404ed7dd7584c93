"""Muon (Jordan et al., 2024): momentum whose updates of weight matrices are orthogonalized.

The update of a matrix is a sum of rank-one directions of very different strength; Adam mostly follows the few strong
ones. Muon replaces all singular values of the update by values near 1, so that every direction is learned. It applies
to the matrices of linear layers; Adam updates embeddings, the output layer, biases and normalization.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from glassformer.nn.linear import Linear

MOMENTUM = 0.95
ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # bring singular values from (0, 1] near 1 in five iterations


def matrices(model: nn.Module) -> dict[str, int]:
    """Return the names of the matrices that Muon updates, with the number of projections packed in each."""
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, Linear) and name != "output"}
    return {f"{name}.weight": layer.parts for name, layer in layers.items()}


def orthogonalize(matrix: Tensor) -> Tensor:
    """Return a matrix with the singular vectors of this one and singular values near 1 (Newton–Schulz iteration)."""
    a, b, c = COEFFICIENTS
    wide = matrix.mT if matrix.shape[0] > matrix.shape[1] else matrix
    x = wide / (wide.norm() + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if wide is not matrix else x


def update_(weight: Tensor, gradient: Tensor, momentum: Tensor, parts: int, *, lr: float, dtype: torch.dtype) -> None:
    """Apply one update to a matrix of `parts` packed projections, each orthogonalized separately."""
    momentum.lerp_(gradient, 1 - MOMENTUM)
    nesterov = gradient.lerp(momentum, MOMENTUM).to(dtype)
    rows, columns = weight.shape[0] // parts, weight.shape[1]
    scale = math.sqrt(max(1.0, rows / columns))
    for part, direction in zip(weight.chunk(parts), nesterov.chunk(parts), strict=True):
        part.add_(orthogonalize(direction), alpha=-lr * scale)
