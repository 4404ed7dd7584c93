"""Traces of image classifiers: the tensors of one image, and the attention of the class token to the patches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.glass.heatmap import head_weights
from glassformer.glass.trace import Trace, recorded
from glassformer.inference.classifier import ImageClassifier
from glassformer.nn.probe import Recorder

SHADES = " ░▒▓█"
CLASS_TOKEN = 0  # its position


@dataclass(frozen=True, kw_only=True)
class ImageTrace(Trace):
    """The trace of one image; its source is the class token and the patches, by row and column from 1.

    Attributes:
        grid: number of patches from top to bottom, and from left to right.
    """

    grid: tuple[int, int]

    @property
    def label(self) -> str:
        """The predicted label."""
        return self.predicted[0]

    def view(self, kind: str | None = None, layer: int = -1, head: int | None = None) -> list[str]:
        return image_view(self, layer, head) if kind is None else super().view(kind, layer, head)

    def class_token_attention(self, layer: int = -1, head: int | None = None) -> Tensor:
        """Return the attention weights of the class token to the patches, Y×X: one head, or the mean.

        The rest of the sum of 1 is the weight of the class token itself.
        """
        return head_weights(self.attention("encoder", layer), head)[CLASS_TOKEN, 1:].view(self.grid)


def trace_image(classifier: ImageClassifier, file: str | Path) -> ImageTrace:
    """Trace the forward pass over an image file."""
    return trace_pixels(classifier.model, classifier.encode(file), classifier.labels)


@torch.inference_mode()
def trace_pixels(model: Any, pixels_CYX: Tensor, labels: Sequence[str]) -> ImageTrace:
    """Trace the forward pass over the pixels of an image, bytes."""
    recorder, side = Recorder(copy=False, model=model), model.encoder.embedding.patch
    model(pixels_CYX[None].to(next(model.parameters()).device), recorder)
    down, across = pixels_CYX.shape[1] // side, pixels_CYX.shape[2] // side
    source = ["<class>", *(f"{y},{x}" for y in range(1, down + 1) for x in range(1, across + 1))]
    found = recorded(recorder, model, lambda chosen: [labels[i] for i in chosen], source=source, target=[])
    return ImageTrace(**vars(found), grid=(down, across))


def image_view(trace: ImageTrace, layer: int = -1, head: int | None = None) -> list[str]:
    """Draw the image, one block per patch, next to the attention of the class token; more attention is darker."""
    brightness_YX = trace["encoder.image"].mean(dim=0)
    side = brightness_YX.shape[0] // trace.grid[0]
    patches_YX = brightness_YX.unfold(0, side, side).unfold(1, side, side).mean(dim=(2, 3))
    weights_YX = trace.class_token_attention(layer, head)
    rows = zip(_blocks(patches_YX), _blocks(weights_YX, lowest=0.0), strict=True)
    gap = max(1, 2 * trace.grid[1] + 3 - len("image"))
    return [
        f"image{' ' * gap}attention of the class token",
        *(f"{left}   {right}" for left, right in rows),
        f"█ is the patch with the highest weight, {float(weights_YX.max()):.1%}; "
        f"the class token itself has {1 - float(weights_YX.sum()):.1%}",
        "",
        f"predicted label: {trace.label}",
    ]


def _blocks(value_YX: Tensor, lowest: float | None = None) -> list[str]:
    """Return two characters per patch, shaded from the lowest value (or the given one) to the highest."""
    low = float(value_YX.min()) if lowest is None else lowest
    span = (float(value_YX.max()) - low) or 1.0
    step_YX = ((value_YX - low) / span * len(SHADES)).long().clamp(0, len(SHADES) - 1)
    return ["".join(2 * SHADES[step] for step in row) for row in step_YX.tolist()]
