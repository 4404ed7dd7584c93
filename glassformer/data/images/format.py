"""The image format of a run: size and number of channels."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.settings import ViTSettings

MAX_SIDE = 64  # pixels of the longer side, by default
MAX_PATCHES = 256
SIDE_MULTIPLE = 4  # a chosen side is a multiple of this, so that it can be divided into patches


class ImageFormat(NamedTuple):
    """Size and number of channels that all images of a run are converted to."""

    height: int
    width: int
    channels: int

    @classmethod
    def from_settings(cls, model: ViTSettings) -> ImageFormat:
        return cls(model.height, model.width, model.channels)

    def __str__(self) -> str:
        return f"{self.height}×{self.width} pixels, {'grey' if self.channels == 1 else 'in colour'}"


def choose_image_format(height: int, width: int, channels: int) -> ImageFormat:
    """Return this size if it is small and can be divided into patches; otherwise the nearest size that is."""
    longer, common = max(height, width), math.gcd(height, width)
    if longer <= MAX_SIDE and (height // common) * (width // common) <= MAX_PATCHES:
        return ImageFormat(height, width, channels)
    scale = min(1.0, MAX_SIDE / longer)
    rounded = [max(SIDE_MULTIPLE, SIDE_MULTIPLE * round(side * scale / SIDE_MULTIPLE)) for side in (height, width)]
    return ImageFormat(rounded[0], rounded[1], channels)


def convert_images(format: ImageFormat, pixels_NCYX: Tensor) -> Tensor:
    """Resize images (uint8) to a format. Grey is repeated for three channels, colour is averaged for one."""
    if pixels_NCYX.shape[1] != format.channels:
        grey_N1YX = pixels_NCYX.float().mean(dim=1, keepdim=True).round().to(torch.uint8)
        pixels_NCYX = grey_N1YX.expand(-1, format.channels, -1, -1)
    size = (format.height, format.width)
    if pixels_NCYX.shape[2:] != size:
        scaled_NCYX = F.interpolate(pixels_NCYX.float(), size, mode="bilinear", antialias=True)
        pixels_NCYX = scaled_NCYX.round().clamp(0, 255).to(torch.uint8)
    return pixels_NCYX.contiguous()


def channel_statistics(pixels_NCYX: Tensor) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation per channel, with pixels from 0 to 1; the deviation of a constant is 1."""
    mean, deviation = list[float](), list[float]()
    for channel_NYX in pixels_NCYX.unbind(1):
        counts_256 = torch.bincount(channel_NYX.flatten(), minlength=256).double()  # exact, without a float copy
        shade_256 = torch.arange(256) / 255.0
        middle = float((counts_256 * shade_256).sum() / counts_256.sum())
        variance = float((counts_256 * (shade_256 - middle) ** 2).sum() / counts_256.sum())
        mean.append(round(middle, 6))
        deviation.append(round(variance**0.5, 6) or 1.0)
    return mean, deviation
