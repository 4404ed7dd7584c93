"""Reading of idx files; damaged ones are refused."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from idx_files import idx

from glassformer.data.images.idx import is_idx, read_idx
from glassformer.errors import UserError

NUMBERS = np.arange(3 * 5 * 7, dtype=np.uint8).reshape(3, 5, 7)


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_are_read(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(idx(NUMBERS)) if packed else idx(NUMBERS))
    assert is_idx(path)
    np.testing.assert_array_equal(read_idx(path), NUMBERS)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0\0", b"label\ttext\n", b"\0\0\x0d\3aaaa", gzip.compress(b"text")],
    ids=["empty", "two zero bytes", "text", "floats", "compressed text"],  # gzip data contains the time
)
def test_other_files_are_not_recognized(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert not is_idx(path)
    assert not is_idx(tmp_path / "missing")


@pytest.mark.parametrize(("cut", "says"), [(-4, "3×5×7 values, but it has 101"), (6, "but it has 0")])
def test_a_damaged_file_is_refused(cut: int, says: str, tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(idx(NUMBERS)[:cut])
    with pytest.raises(UserError, match=re.escape(says)):
        read_idx(path)


def test_truncated_gzip_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(idx(NUMBERS))[:-12])
    with pytest.raises(UserError, match="cannot be read"):
        read_idx(path)
