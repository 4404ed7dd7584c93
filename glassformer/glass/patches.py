"""Looking at a model of images: every named tensor of one pass over one image, and where its class token looked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.glass.trace import Trace, recorded
from glassformer.glass.views import one_head
from glassformer.nn.probe import Recorder

SHADES = " ░▒▓█"
CLASS_TOKEN = 0  # where it stands


@dataclass(frozen=True, kw_only=True)
class PatchTrace(Trace):
    """What a model computed for one image; its source is the class token and the patches, by row and column."""

    grid: tuple[int, int]  # patches from top to bottom, and from left to right

    @property
    def label(self) -> str:
        """What the image was taken for."""
        return self.predicted[0]

    def looked_at(self, layer: int = -1, head: int | None = None) -> Tensor:
        """Where the class token of a layer looked, Y×X patches; the mean over its heads. What is missing of 1 it kept
        on itself.
        """
        return one_head(self.attention("encoder", layer), head)[CLASS_TOKEN, 1:].view(self.grid)


@torch.inference_mode()
def trace_image(model: Any, pixels_CYX: Tensor, labels: Sequence[str]) -> PatchTrace:
    """One pass under a probe."""
    recorder, side = Recorder(copy=False, model=model), model.encoder.embedding.patch
    model(pixels_CYX[None].to(next(model.parameters()).device), recorder)
    down, across = pixels_CYX.shape[1] // side, pixels_CYX.shape[2] // side
    source = ["<class>", *(f"{y},{x}" for y in range(down) for x in range(across))]
    found = recorded(recorder, model, lambda chosen: [labels[i] for i in chosen], source=source, target=[])
    return PatchTrace(**vars(found), grid=(down, across))


def patch_view(trace: PatchTrace, layer: int = -1, head: int | None = None) -> list[str]:
    """The image, a block a patch, beside where the class token looked: the darker, the more."""
    seen_YX = trace["encoder.image"].mean(dim=0)
    side = seen_YX.shape[0] // trace.grid[0]
    shown_YX = seen_YX.unfold(0, side, side).unfold(1, side, side).mean(dim=(2, 3))
    weights_YX = trace.looked_at(layer, head)
    lines = [
        f"{left}   {right}" for left, right in zip(_blocks(shown_YX), _blocks(weights_YX, lowest=0.0), strict=True)
    ]
    itself, most = 1 - float(weights_YX.sum()), float(weights_YX.max())
    gap = max(1, 2 * trace.grid[1] + 3 - len("the image"))
    return [
        f"the image{' ' * gap}where the class token looked",
        *lines,
        f"█ is the patch that got most, {most:.1%} of the attention; {itself:.1%} stayed on the class token itself",
        "",
        f"taken for: {trace.label}",
    ]


def _blocks(value_YX: Tensor, lowest: float | None = None) -> list[str]:
    """Two characters a patch, from the lowest value (or the one given) to the highest."""
    low = float(value_YX.min()) if lowest is None else lowest
    span = (float(value_YX.max()) - low) or 1.0
    step_YX = ((value_YX - low) / span * len(SHADES)).long().clamp(0, len(SHADES) - 1)
    return ["".join(2 * SHADES[step] for step in row) for row in step_YX.tolist()]
