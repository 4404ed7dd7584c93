"""Images of one form with their labels: read from idx files, or from folders, one for each class."""

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

from glassformer.data.account import Bad
from glassformer.data.images.folders import Found, decoded, find_images, header
from glassformer.data.images.format import Form, brought_to, fitting
from glassformer.data.images.idx import is_idx, read_idx
from glassformer.errors import Message, UserError
from glassformer.files import no_such
from glassformer.settings import Paths

IDX_LABELS, GREY_IDX, COLOUR_IDX = 1, 3, 4  # dimensions
FORM = "give a folder with one folder of images for each class, or two idx files, images and labels"


class Known(NamedTuple):
    """What is known of an image beside its pixels."""

    label: str
    digest: str  # of its file, or of its pixels in an idx file
    place: str


@dataclass(frozen=True)
class Pictures:
    pixels_NCYX: Tensor  # bytes
    known: list[Known]

    def __len__(self) -> int:
        return len(self.known)

    def of(self, rows: Sequence[int]) -> Pictures:
        return Pictures(self.pixels_NCYX[torch.tensor(rows, dtype=torch.long)], [self.known[row] for row in rows])


def read_pictures(paths: Paths, form: Form | None = None) -> tuple[Pictures, list[Bad], Form]:
    """Every image, those that cannot be read, and the form that all were brought to: by itself, that of most."""
    files = [Path(path).expanduser() for path in _flat(paths)]
    for file in files:
        if not file.exists():
            raise no_such(file)
    if all(file.is_dir() for file in files) and files:
        return _from_folders(files, form)
    if len(files) == 2 and all(is_idx(file) for file in files):
        return _from_idx(files, form)
    raise UserError("These are not images that can be read.", where=", ".join(map(str, files)), hint=FORM)


def _flat(paths: Paths) -> list[str]:
    return [name for path in paths for name in ([path] if isinstance(path, str) else path)]


def read_picture(path: Path, form: Form) -> Tensor:
    """The pixels of one image file, brought to a form: C×Y×X bytes."""
    if not path.exists():
        raise no_such(path)
    if path.is_dir():
        raise UserError("This is a folder; an image is needed.", where=str(path), hint=f"name images in it: {path}/*")
    try:
        return torch.from_numpy(decoded(path.read_bytes(), form))
    except ValueError as error:
        raise UserError(
            Message("The file is not a readable image: {why}.", why=str(error)),
            where=str(path),
            hint="use .png, .jpg or .bmp",
        ) from None


# Folders ------------------------------------------------------


def _from_folders(folders: list[Path], form: Form | None) -> tuple[Pictures, list[Bad], Form]:
    found = [image for folder in folders for image in find_images(folder)]
    form = form or survey(found)
    pixels = np.empty((len(found), form.channels, form.height, form.width), dtype=np.uint8)
    known, bad = list[Known](), list[Bad]()
    for image in found:
        content = image.path.read_bytes()
        try:
            pixels[len(known)] = decoded(content, form)
        except ValueError as error:
            bad.append(Bad("not an image that can be read", str(image.path), str(error)))
        else:
            known.append(Known(image.label, _digest(content), str(image.path)))
    return Pictures(torch.from_numpy(pixels[: len(known)]), known), bad, form


def survey(found: Sequence[Found]) -> Form:
    """The form of most images, by their headers; a smaller one where they are large or of many sizes."""
    headers = [seen for image in found if (seen := header(image.path)) is not None]
    if not headers:
        raise UserError("None of these files can be read as an image.", where=str(found[0].path), hint=FORM)
    coloured = sum(seen.colour for seen in headers)
    channels = 3 if 2 * coloured > len(headers) else 1
    (size, count), *_ = Counter((seen.height, seen.width) for seen in headers).most_common(1)
    if 2 * count > len(headers):
        return fitting(*size, channels)
    side = int(np.median([min(seen.height, seen.width) for seen in headers]))
    return fitting(side, side, channels)


# idx files -----------------------------------------------------


def _from_idx(files: list[Path], form: Form | None) -> tuple[Pictures, list[Bad], Form]:
    arrays = sorted(((read_idx(file), file) for file in files), key=lambda pair: pair[0].ndim)
    (labels_N, labels_file), (image_N, image_file) = arrays
    if labels_N.ndim != IDX_LABELS or image_N.ndim not in (GREY_IDX, COLOUR_IDX):
        where = f"{labels_file} has {labels_N.ndim} dimensions, {image_file} has {image_N.ndim}"
        raise UserError("One idx file of images and one of labels are needed.", where=where, hint=FORM)
    if len(labels_N) != len(image_N):
        raise UserError(
            f"The files do not pair up: {len(image_N):,} images and {len(labels_N):,} labels.",
            where=f"{image_file} and {labels_file}",
            hint="give the labels of these very images",
        )
    if not image_N.size:
        raise UserError("There are no images in this file.", where=str(image_file), hint=FORM)
    known = [
        Known(str(label), _digest(image.tobytes()), f"{image_file}:{number}")
        for number, (label, image) in enumerate(zip(labels_N.tolist(), image_N, strict=True), 1)
    ]
    pixels_NCYX = torch.from_numpy(image_N[:, None] if image_N.ndim == GREY_IDX else image_N.transpose(0, 3, 1, 2))
    _, channels, height, width = pixels_NCYX.shape
    form = form or fitting(height, width, channels)
    return Pictures(brought_to(form, pixels_NCYX), known), [], form


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=12).hexdigest()
