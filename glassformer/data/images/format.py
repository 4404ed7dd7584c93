"""The one form that all images of a run are brought to: their size, and whether they are grey or in colour."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.settings import ViTSettings

LARGEST = 64  # pixels of the longer side, unless more is asked for
MANY_PATCHES = 256
STEP = 4  # sides that nobody gave are a multiple of this, so that there are patches


class Form(NamedTuple):
    """What every image is brought to."""

    height: int
    width: int
    channels: int

    @classmethod
    def of(cls, model: ViTSettings) -> Form:
        """What the images of a run are brought to."""
        return cls(model.height, model.width, model.channels)

    def __str__(self) -> str:
        return f"{self.height}×{self.width} pixels, {'grey' if self.channels == 1 else 'in colour'}"


def fitting(height: int, width: int, channels: int) -> Form:
    """This size, if it can be cut into patches and is not large; else the nearest that can and is not."""
    longer, common = max(height, width), math.gcd(height, width)
    if longer <= LARGEST and (height // common) * (width // common) <= MANY_PATCHES:
        return Form(height, width, channels)
    scale = min(1.0, LARGEST / longer)
    rounded = [max(STEP, STEP * round(side * scale / STEP)) for side in (height, width)]
    return Form(rounded[0], rounded[1], channels)


def brought_to(form: Form, pixels_NCYX: Tensor) -> Tensor:
    """Bytes of another size, scaled; grey ones three times over where colour is wanted, and the other way its mean."""
    if pixels_NCYX.shape[1] != form.channels:
        grey_N1YX = pixels_NCYX.float().mean(dim=1, keepdim=True).round().to(torch.uint8)
        pixels_NCYX = grey_N1YX.expand(-1, form.channels, -1, -1)
    size = (form.height, form.width)
    if pixels_NCYX.shape[2:] != size:
        scaled_NCYX = F.interpolate(pixels_NCYX.float(), size, mode="bilinear", antialias=True)
        pixels_NCYX = scaled_NCYX.round().clamp(0, 255).to(torch.uint8)
    return pixels_NCYX.contiguous()


def statistics(pixels_NCYX: Tensor) -> tuple[list[float], list[float]]:
    """Mean and deviation of each channel, from 0 to 1; a channel that is the same all over deviates by 1."""
    mean, deviation = list[float](), list[float]()
    for channel_NYX in pixels_NCYX.unbind(1):
        counts_256 = torch.bincount(channel_NYX.flatten(), minlength=256).double()  # exact, and needs no copy in floats
        shade_256 = torch.arange(256) / 255.0
        middle = float((counts_256 * shade_256).sum() / counts_256.sum())
        variance = float((counts_256 * (shade_256 - middle) ** 2).sum() / counts_256.sum())
        mean.append(round(middle, 6))
        deviation.append(round(variance**0.5, 6) or 1.0)
    return mean, deviation
