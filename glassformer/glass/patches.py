"""Looking at a model of images: every named tensor of one pass over one image, and where its class token looked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import UserError
from glassformer.nn.probe import Recorder

SHADES = " ░▒▓█"
CLASS_TOKEN = 0  # where it stands


@dataclass(frozen=True)
class PatchTrace:
    """What a model computed for one image, by name: `trace["encoder.0.self.weights"]`."""

    grid: tuple[int, int]  # patches from top to bottom, and from left to right
    label: str
    tensors: dict[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    @property
    def layers(self) -> int:
        return sum(name.endswith(".self.weights") for name in self.tensors)

    def looked_at(self, layer: int = -1) -> Tensor:
        """Where the class token of a layer looked, Y×X patches; the mean over its heads. What is missing of 1 it kept
        on itself.
        """
        if not -self.layers <= layer < self.layers:
            raise UserError(f"There is no layer {layer}.", where="layer", fix=f"take one from 0 to {self.layers - 1}")
        weights_HQK = self.tensors[f"encoder.{layer % self.layers}.self.weights"]
        return weights_HQK.mean(dim=0)[CLASS_TOKEN, 1:].view(self.grid)


@torch.inference_mode()
def trace_image(model: Any, pixels_CYX: Tensor, labels: Sequence[str]) -> PatchTrace:
    """One pass under a probe."""
    recorder, side = Recorder(), model.encoder.embedding.side
    logits_1L = model(pixels_CYX[None].to(next(model.parameters()).device), recorder)
    tensors = {
        name: (tensor if name.endswith("positions") else tensor[0]).cpu() for name, tensor in recorder.tensors.items()
    }
    grid = (pixels_CYX.shape[1] // side, pixels_CYX.shape[2] // side)
    return PatchTrace(grid, labels[int(logits_1L[0].argmax())], tensors)


def patch_view(trace: PatchTrace, layer: int = -1) -> list[str]:
    """The image, a block a patch, beside where the class token looked: the darker, the more."""
    seen_YX = trace["encoder.image"].mean(dim=0)
    side = seen_YX.shape[0] // trace.grid[0]
    shown_YX = seen_YX.unfold(0, side, side).unfold(1, side, side).mean(dim=(2, 3))
    weights_YX = trace.looked_at(layer)
    lines = [
        f"{left}   {right}" for left, right in zip(_blocks(shown_YX), _blocks(weights_YX, lowest=0.0), strict=True)
    ]
    itself, most = 1 - float(weights_YX.sum()), float(weights_YX.max())
    gap = max(1, 2 * trace.grid[1] + 3 - len("the image"))
    return [
        f"the image{' ' * gap}where the class token looked",
        *lines,
        f"█ is the patch that got most, {most:.1%} of the attention; {itself:.1%} stayed on the class token itself",
    ]


def _blocks(value_YX: Tensor, lowest: float | None = None) -> list[str]:
    """Two characters a patch, from the lowest value (or the one given) to the highest."""
    low = float(value_YX.min()) if lowest is None else lowest
    span = (float(value_YX.max()) - low) or 1.0
    step_YX = ((value_YX - low) / span * len(SHADES)).long().clamp(0, len(SHADES) - 1)
    return ["".join(2 * SHADES[step] for step in row) for row in step_YX.tolist()]
