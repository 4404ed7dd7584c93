"""Images from folders and idx files, converted to one format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from idx_files import idx
from PIL import Image

from glassformer.data.images.dataset import first_images, read_image, read_images
from glassformer.data.images.format import ImageFormat, channel_statistics, choose_image_format, convert_images
from glassformer.errors import UserError


def save(path: Path, shade: int | tuple[int, int, int], size: tuple[int, int] = (12, 8)) -> None:
    """Write an image of one colour; a tuple for RGB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L" if isinstance(shade, int) else "RGB", size, shade).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        save(tmp_path / f"images/night/{number}.png", 10 + number)
        save(tmp_path / f"images/day/deep/{number}.bmp", 200 + number)
    return tmp_path / "images"


def test_one_folder_per_class(folder: Path) -> None:
    pictures, bad, form = read_images([str(folder)])
    assert form == ImageFormat(height=8, width=12, channels=1)
    assert [known.label for known in pictures.records] == ["day"] * 3 + ["night"] * 3
    assert pictures.pixels_NCYX.shape == (6, 1, 8, 12)
    assert pictures.pixels_NCYX[:, 0, 0, 0].tolist() == [200, 201, 202, 10, 11, 12]
    assert pictures.records[3].place == str(folder / "night/0.png")
    assert not bad


def test_the_first_image_of_each_label(folder: Path, tmp_path: Path) -> None:
    form = ImageFormat(height=4, width=6, channels=1)
    first = first_images([str(folder)], form)
    assert [(image.label, int(image.pixels_CYX[0, 0, 0])) for image in first] == [("day", 200), ("night", 10)]
    (tmp_path / "images.idx").write_bytes(idx(np.arange(5, dtype=np.uint8)[:, None, None] * np.ones((8, 12), np.uint8)))
    (tmp_path / "labels.idx").write_bytes(idx(np.array([7, 3, 3, 7, 1], dtype=np.uint8)))
    first = first_images([str(tmp_path / "images.idx"), str(tmp_path / "labels.idx")], form)
    assert [(image.label, int(image.pixels_CYX.max())) for image in first] == [("1", 4), ("3", 1), ("7", 0)]
    assert first[0].pixels_CYX.shape == (1, 4, 6)


def test_an_undecodable_file_is_skipped_and_reported(folder: Path) -> None:
    whole = (folder / "night/0.png").read_bytes()
    (folder / "night/1.png").write_bytes(whole[:40])
    (folder / "day/2.jpg").write_bytes(b"no image at all")
    (folder / "day/notes.txt").write_text("not looked at")
    pictures, bad, _ = read_images([str(folder)])
    assert len(pictures) == 5
    assert {one.place for one in bad} == {str(folder / "night/1.png"), str(folder / "day/2.jpg")}
    assert {one.reason for one in bad} == {"the image cannot be decoded"}


def test_the_most_common_format_is_used(folder: Path) -> None:
    for number in range(7):
        save(folder / f"dusk/{number}.png", (90, 60, 30), size=(20, 16))
    pictures, _, form = read_images([str(folder)])
    assert form == ImageFormat(height=16, width=20, channels=3)
    day = pictures.pixels_NCYX[0]
    assert day.shape == (3, 16, 20) and (day == 200).all()


def test_an_image_of_another_aspect_ratio_is_center_cropped(tmp_path: Path) -> None:
    stripes = np.zeros((4, 12), dtype=np.uint8)
    stripes[:, 4:8] = 255
    Image.fromarray(stripes).save(tmp_path / "wide.png")
    assert (read_image(tmp_path / "wide.png", ImageFormat(4, 4, 1)) == 255).all()


def test_16_bit_grey_images(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 0x8123, dtype=np.uint16)).save(tmp_path / "deep.png")
    assert (read_image(tmp_path / "deep.png", ImageFormat(4, 4, 1)) == 0x81).all()


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ([], "contains no images(.|\n)*images/cat/1.png"),
        (["1.png", "2.png"], "The 2 images of this folder have no class"),
        (["train/cat/1.png", "test/cat/1.png"], "contains splits(.|\n)*--valid"),
    ],
)
def test_a_folder_without_classes(made: list[str], says: str, tmp_path: Path) -> None:
    for name in made:
        save(tmp_path / name, 3)
    with pytest.raises(UserError, match=says):
        read_images([str(tmp_path)])


def test_idx_files_in_either_order(tmp_path: Path) -> None:
    image_NYX = np.arange(5 * 4 * 6, dtype=np.uint8).reshape(5, 4, 6)
    (tmp_path / "a").write_bytes(idx(np.array([3, 1, 4, 1, 5], dtype=np.uint8)))
    (tmp_path / "b").write_bytes(idx(image_NYX))
    for names in (["a", "b"], ["b", "a"]):
        pictures, _, form = read_images([str(tmp_path / name) for name in names])
        assert form == ImageFormat(4, 6, 1)
        assert [known.label for known in pictures.records] == list("31415")
        np.testing.assert_array_equal(pictures.pixels_NCYX[:, 0].numpy(), image_NYX)
    (tmp_path / "a").write_bytes(idx(np.array([3, 1], dtype=np.uint8)))
    with pytest.raises(UserError, match="5 images and 2 labels"):
        read_images([str(tmp_path / "a"), str(tmp_path / "b")])
    with pytest.raises(UserError, match="not a data set of images"):
        read_images([str(tmp_path / "a")])


def test_sizes_that_can_be_cut_into_patches() -> None:
    assert choose_image_format(28, 28, 1) == ImageFormat(28, 28, 1)
    assert choose_image_format(31, 29, 1) == ImageFormat(32, 28, 1)
    assert choose_image_format(480, 640, 3) == ImageFormat(48, 64, 3)


def test_conversion_between_formats() -> None:
    pixels = torch.tensor([[10, 20], [30, 40]], dtype=torch.uint8)[None, None]
    in_colour = convert_images(ImageFormat(2, 2, 3), pixels)
    assert in_colour.shape == (1, 3, 2, 2) and torch.equal(in_colour[0, 2], pixels[0, 0])
    assert convert_images(ImageFormat(1, 1, 1), in_colour).tolist() == [[[[25]]]]


def test_statistics_are_those_of_the_pixels() -> None:
    pixels = torch.randint(0, 256, (7, 3, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    pixels[:, 2] = 7
    mean, deviation = channel_statistics(pixels)
    share = pixels.double() / 255
    assert mean == pytest.approx(share.mean(dim=(0, 2, 3)).tolist(), abs=1e-6)
    assert deviation[:2] == pytest.approx(share[:, :2].std(dim=(0, 2, 3), correction=0).tolist(), abs=1e-6)
    assert deviation[2] == 1
