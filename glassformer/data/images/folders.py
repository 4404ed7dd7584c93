"""Image files in folders with one subfolder per class, decoded by Pillow."""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from glassformer.data.images.format import ImageFormat
from glassformer.errors import UserError
from glassformer.limits import IMAGE_PIXELS
from glassformer.text.lines import refuse_odd_name

SUFFIXES = frozenset([".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm"])
GREY = frozenset(["1", "L", "LA", "La", "I", "F", "I;16", "I;16B"])  # image modes of Pillow
SPLIT_NAMES = frozenset(["train", "valid", "val", "validation", "test"])
BY_CLASS = "put the images of each class into its own folder: images/cat/1.png, images/dog/1.png …"


class ImageFile(NamedTuple):
    """An image file and its label, the name of its folder."""

    path: Path
    label: str


class ImageHeader(NamedTuple):
    """Size and kind of an image."""

    height: int
    width: int
    colour: bool


def find_images(folder: Path) -> list[ImageFile]:
    """Return all images in the subfolders of a folder, whose names are the labels."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if classes and {path.name.lower() for path in classes} <= SPLIT_NAMES:
        names = " ".join(path.name for path in classes)
        hint = f"name each: {classes[-1] if len(classes) == 1 else folder / 'train'} --valid {folder / 'valid'} …"
        raise UserError(f"The folder contains splits ({names}), not classes.", where=str(folder), hint=hint)
    found = [ImageFile(path, label.name) for label in classes for path in sorted(label.rglob("*")) if _is_image(path)]
    for image in found:
        refuse_odd_name(image.path)
    if found:
        return found
    loose = sum(_is_image(path) for path in folder.iterdir())
    what = f"The {loose:,} images of this folder have no class." if loose else "The folder contains no images."
    raise UserError(what, where=str(folder), hint=BY_CLASS)


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def pillow() -> ModuleType:
    """Import Pillow, an optional dependency."""
    try:
        from PIL import Image
    except ImportError:
        raise UserError(
            "Reading images requires Pillow, which is not installed.", hint="pip install 'glassformer[images]'"
        ) from None
    return Image


def read_header(path: Path) -> ImageHeader | None:
    """Return size and kind of an image, reading only its header; None if it cannot be decoded."""
    image_of = pillow()
    try:
        with _without_warnings(), image_of.open(path) as image:
            return ImageHeader(image.height, image.width, image.mode not in GREY)
    except (OSError, ValueError, image_of.DecompressionBombError):  # not an image, damaged, or absurdly large
        return None


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Suppress Pillow's warnings about malformed metadata and large images; the limit on pixels is checked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def decode_image(content: bytes, format: ImageFormat) -> np.ndarray:
    """Decode an image to C×Y×X, uint8: rotated by its EXIF tag, resized and center-cropped. ValueError if damaged."""
    image_of = pillow()
    from PIL import ImageOps, UnidentifiedImageError

    try:
        with _without_warnings(), image_of.open(io.BytesIO(content)) as image:
            if image.width * image.height > (most := IMAGE_PIXELS.value()):
                size = f"{image.width:,} by {image.height:,} pixels"
                raise ValueError(f"{size} exceed the limit of {most:,} (raise it with {IMAGE_PIXELS.variable})")
            upright = ImageOps.exif_transpose(image)
            plain = _eight_bits(upright).convert("L" if format.channels == 1 else "RGB")
            if plain.size != (format.width, format.height):
                plain = ImageOps.fit(plain, (format.width, format.height), image_of.Resampling.BICUBIC)
    except UnidentifiedImageError:
        raise ValueError("unknown image format") from None
    except image_of.DecompressionBombError:
        raise ValueError(f"its size exceeds the limit of {IMAGE_PIXELS.value():,} pixels") from None
    except (OSError, SyntaxError, EOFError, struct.error, IndexError, OverflowError, ZeroDivisionError) as error:
        raise ValueError(str(error) or type(error).__name__) from None  # Pillow's decoders fail in all these ways
    pixels = np.array(plain, dtype=np.uint8)
    return pixels[None] if format.channels == 1 else pixels.transpose(2, 0, 1)


def _eight_bits(image: Any) -> Any:
    """Keep the upper eight bits of a grey image with more bits; Pillow would clip bright values."""
    if not image.mode.startswith("I"):
        return image
    return pillow().fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
