"""Image files in folders, one folder for each class, by Pillow."""

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

from glassformer.data.images.format import Form
from glassformer.errors import UserError
from glassformer.limits import IMAGE_PIXELS
from glassformer.text.lines import refuse_odd_name

SUFFIXES = frozenset([".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm"])
GREY = frozenset(["1", "L", "LA", "La", "I", "F", "I;16", "I;16B"])  # as Pillow calls them
SPLITS = frozenset(["train", "valid", "val", "validation", "test"])
BY_CLASS = "put the images of each class in a folder of its own: images/cat/1.png, images/dog/1.png …"


class Found(NamedTuple):
    path: Path
    label: str


class Header(NamedTuple):
    height: int
    width: int
    colour: bool


def find_images(folder: Path) -> list[Found]:
    """Every image below the folders of a folder, whose names are the labels."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if classes and {path.name.lower() for path in classes} <= SPLITS:
        names = " ".join(path.name for path in classes)
        raise UserError(
            f"This folder holds splits ({names}), not classes.",
            where=str(folder),
            hint=f"name each: {classes[-1] if len(classes) == 1 else folder / 'train'} --valid {folder / 'valid'} …",
        )
    found = [Found(path, place.name) for place in classes for path in sorted(place.rglob("*")) if _is_image(path)]
    for image in found:
        refuse_odd_name(image.path)
    if found:
        return found
    loose = sum(_is_image(path) for path in folder.iterdir())
    what = f"The {loose:,} images of this folder have no class." if loose else "There are no images in this folder."
    raise UserError(what, where=str(folder), hint=BY_CLASS)


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError:
        raise UserError(
            "Pillow, which reads images, is not installed.", hint="pip install 'glassformer[images]'"
        ) from None
    return Image


def header(path: Path) -> Header | None:
    """Size and kind of an image, of which no more than the beginning is read; None if it has none."""
    image_of = pillow()
    try:
        with _quietly(), image_of.open(path) as image:
            return Header(image.height, image.width, image.mode not in GREY)
    except (OSError, ValueError, image_of.DecompressionBombError):  # not an image, damaged, or absurdly large
        return None


@contextmanager
def _quietly() -> Iterator[None]:
    """Without Pillow's warnings, of odd metadata and of large images: the limit on pixels is checked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def decoded(content: bytes, form: Form) -> np.ndarray:
    """C×Y×X bytes of an image: turned upright, scaled to cover the form, its middle cut out. ValueError if broken."""
    image_of = pillow()
    from PIL import ImageOps, UnidentifiedImageError

    try:
        with _quietly(), image_of.open(io.BytesIO(content)) as image:
            if image.width * image.height > (most := IMAGE_PIXELS.value()):
                size = f"{image.width:,} by {image.height:,} pixels"
                raise ValueError(f"{size} exceed the limit of {most:,} (raise it with {IMAGE_PIXELS.variable})")
            upright = ImageOps.exif_transpose(image)
            plain = _eight_bits(upright).convert("L" if form.channels == 1 else "RGB")
            if plain.size != (form.width, form.height):
                plain = ImageOps.fit(plain, (form.width, form.height), image_of.Resampling.BICUBIC)
    except UnidentifiedImageError:
        raise ValueError("its format is not known") from None
    except image_of.DecompressionBombError:
        raise ValueError(f"its size exceeds the limit of {IMAGE_PIXELS.value():,} pixels") from None
    except (OSError, SyntaxError, EOFError, struct.error, IndexError, OverflowError, ZeroDivisionError) as error:
        raise ValueError(str(error) or type(error).__name__) from None  # Pillow's decoders fail in all these ways
    pixels = np.array(plain, dtype=np.uint8)
    return pixels[None] if form.channels == 1 else pixels.transpose(2, 0, 1)


def _eight_bits(image: Any) -> Any:
    """Of a grey image with more bits, the highest eight; Pillow would cut off what is bright."""
    if not image.mode.startswith("I"):
        return image
    return pillow().fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
