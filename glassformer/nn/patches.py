"""An image as a sequence: square patches, each projected to the model width (Dosovitskiy et al., 2021, §3.1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.nn.linear import Linear


def cut_patches(image_BCYX: Tensor, patch: int) -> Tensor:
    """Cut images into patches, row by row, each flattened: B×C×Y×X to B×P×(C·patch·patch)."""
    B, C, Y, X = image_BCYX.shape
    rows, columns = Y // patch, X // patch
    cut = image_BCYX.reshape(B, C, rows, patch, columns, patch)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(B, rows * columns, C * patch * patch)


class PatchEmbedding(nn.Module):
    """Linear projection of patches to the model width, the counterpart of the token embedding."""

    def __init__(self, channels: int, patch: int, d_model: int) -> None:
        super().__init__()
        self.patch = patch
        self.project = Linear(channels * patch * patch, d_model)

    def forward(self, image_BCYX: Tensor) -> Tensor:
        return self.project(cut_patches(image_BCYX, self.patch))


class ClassToken(nn.Module):
    """A learned vector before the first patch. It belongs to no part of the image, so it can represent the whole."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight_D = nn.Parameter(torch.empty(d_model).normal_(std=d_model**-0.5))

    def forward(self, x_BPD: Tensor) -> Tensor:
        """Prepend the class token: B×P×D to B×(1+P)×D."""
        return torch.cat([self.weight_D.expand(len(x_BPD), 1, -1), x_BPD], dim=1)
