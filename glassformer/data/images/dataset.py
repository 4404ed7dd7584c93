"""Labelled images of one format, read from idx files or from folders with one subfolder per class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.data.images.folders import ImageFile, decode_image, find_images, read_header
from glassformer.data.images.format import ImageFormat, choose_image_format, convert_images
from glassformer.data.images.idx import is_idx, read_idx
from glassformer.data.report import DroppedExample
from glassformer.errors import Message, UserError
from glassformer.files import not_found
from glassformer.limits import IMAGE_FILE, read_bytes
from glassformer.settings import Paths

IDX_LABELS, GREY_IDX, COLOUR_IDX = 1, 3, 4  # numbers of dimensions
IMAGE_SOURCES = "give a folder with one subfolder of images per class, or two idx files, images and labels"


class ImageRecord(NamedTuple):
    """Label, content hash and location of an image."""

    label: str
    digest: str  # of the file, or of the pixels in an idx file
    place: str


@dataclass(frozen=True)
class ImageDataset:
    """Images in memory."""

    pixels_NCYX: Tensor  # uint8
    records: list[ImageRecord]

    def __len__(self) -> int:
        return len(self.records)

    def select(self, rows: Sequence[int]) -> ImageDataset:
        pixels_NCYX = self.pixels_NCYX[torch.tensor(rows, dtype=torch.long)]
        return ImageDataset(pixels_NCYX, [self.records[row] for row in rows])


def read_images(
    paths: Paths, format: ImageFormat | None = None
) -> tuple[ImageDataset, list[DroppedExample], ImageFormat]:
    """Return all images in one format, the images that cannot be decoded, and the format.

    Without `format`, the most common format of the images is used.
    """
    files = _existing_files(paths)
    return _from_folders(files, format) if files[0].is_dir() else _from_idx(files, format)


def _existing_files(paths: Paths) -> list[Path]:
    """Return the folders, or the two idx files, of a data set."""
    files = [Path(path).expanduser() for path in _flat(paths)]
    for file in files:
        if not file.exists():
            raise not_found(file)
    folders = all(file.is_dir() for file in files) and bool(files)
    if folders or (len(files) == 2 and all(is_idx(file) for file in files)):
        return files
    raise UserError("These files are not a data set of images.", where=", ".join(map(str, files)), hint=IMAGE_SOURCES)


class LabelledImage(NamedTuple):
    """An image (C×Y×X, uint8) and its label."""

    pixels_CYX: Tensor
    label: str


def first_images(paths: Paths, format: ImageFormat) -> list[LabelledImage]:
    """Return the first image of each label; the others are neither decoded nor converted."""
    files = _existing_files(paths)
    if files[0].is_dir():
        first = {image.label: image for folder in files for image in reversed(find_images(folder))}
        return [LabelledImage(read_image(image.path, format), label) for label, image in sorted(first.items())]
    labels_N, image_N, _ = _read_idx_pair(files)
    labels, rows = np.unique(labels_N, return_index=True)
    pixels_NCYX = convert_images(format, _channels_first(image_N[rows]))
    return [LabelledImage(pixels, str(label)) for pixels, label in zip(pixels_NCYX, labels.tolist(), strict=True)]


def _flat(paths: Paths) -> list[str]:
    return [name for path in paths for name in ([path] if isinstance(path, str) else path)]


def read_image(path: Path, format: ImageFormat) -> Tensor:
    """Return the pixels of an image file in a format: C×Y×X, uint8."""
    if not path.exists():
        raise not_found(path)
    if path.is_dir():
        raise UserError(
            "This is a folder; an image file is needed.", where=str(path), hint=f"name the images in it: {path}/*"
        )
    try:
        return torch.from_numpy(decode_image(read_bytes(path, IMAGE_FILE, "The image"), format))
    except ValueError as error:
        raise UserError(
            Message("The image cannot be decoded: {why}.", why=str(error)),
            where=str(path),
            hint="give a .png, .jpg, .bmp …",
        ) from None


# Folders ------------------------------------------------------


def _from_folders(
    folders: list[Path], format: ImageFormat | None
) -> tuple[ImageDataset, list[DroppedExample], ImageFormat]:
    found = [image for folder in folders for image in find_images(folder)]
    format = format or survey_format(found)
    pixels = np.empty((len(found), format.channels, format.height, format.width), dtype=np.uint8)
    records, dropped = list[ImageRecord](), list[DroppedExample]()
    for image in found:
        try:
            content = read_bytes(image.path, IMAGE_FILE, "The image")
            pixels[len(records)] = decode_image(content, format)
        except (ValueError, UserError) as error:
            dropped.append(DroppedExample("the image cannot be decoded", str(image.path), str(error)))
        else:
            records.append(ImageRecord(image.label, _digest(content), str(image.path)))
    return ImageDataset(torch.from_numpy(pixels[: len(records)]), records), dropped, format


def survey_format(found: Sequence[ImageFile]) -> ImageFormat:
    """Return the most common format according to the image headers; a smaller one if images are large or vary."""
    headers = [header for image in found if (header := read_header(image.path)) is not None]
    if not headers:
        raise UserError("None of these files can be decoded as an image.", where=str(found[0].path), hint=IMAGE_SOURCES)
    coloured = sum(header.colour for header in headers)
    channels = 3 if 2 * coloured > len(headers) else 1
    (size, count), *_ = Counter((header.height, header.width) for header in headers).most_common(1)
    if 2 * count > len(headers):
        return choose_image_format(*size, channels)
    side = int(np.median([min(header.height, header.width) for header in headers]))
    return choose_image_format(side, side, channels)


# idx files -----------------------------------------------------


def _from_idx(files: list[Path], format: ImageFormat | None) -> tuple[ImageDataset, list[DroppedExample], ImageFormat]:
    labels_N, image_N, image_file = _read_idx_pair(files)
    records = [
        ImageRecord(str(label), _digest(image.tobytes()), f"{image_file}:{number}")
        for number, (label, image) in enumerate(zip(labels_N.tolist(), image_N, strict=True), 1)
    ]
    pixels_NCYX = _channels_first(image_N)
    _, channels, height, width = pixels_NCYX.shape
    format = format or choose_image_format(height, width, channels)
    return ImageDataset(convert_images(format, pixels_NCYX), records), [], format


def _channels_first(image_N: np.ndarray) -> Tensor:
    return torch.from_numpy(image_N[:, None] if image_N.ndim == GREY_IDX else image_N.transpose(0, 3, 1, 2))


def _read_idx_pair(files: list[Path]) -> tuple[np.ndarray, np.ndarray, Path]:
    """Return the labels, the images, and the file of the images."""
    arrays = sorted(((read_idx(file), file) for file in files), key=lambda pair: pair[0].ndim)
    (labels_N, labels_file), (image_N, image_file) = arrays
    if labels_N.ndim != IDX_LABELS or image_N.ndim not in (GREY_IDX, COLOUR_IDX):
        where = f"{labels_file} has {labels_N.ndim} dimensions, {image_file} has {image_N.ndim}"
        raise UserError(
            "One idx file of images and one idx file of labels are needed.", where=where, hint=IMAGE_SOURCES
        )
    if len(labels_N) != len(image_N):
        raise UserError(
            f"The numbers of images and labels differ: {len(image_N):,} images and {len(labels_N):,} labels.",
            where=f"{image_file} and {labels_file}",
            hint="give the label file that belongs to this image file",
        )
    if not image_N.size:
        raise UserError("The file contains no images.", where=str(image_file), hint=IMAGE_SOURCES)
    return labels_N, image_N, image_file


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=12).hexdigest()
