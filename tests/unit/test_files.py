"""Files appear whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from glassformer.errors import UserError
from glassformer.files import cannot_write, write_text, writing


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError), writing(path) as beside:
        beside.write_text("half", encoding="utf-8")
        raise RuntimeError("pulled the plug")
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["kept.txt"]


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    for text in ("one", "two"):
        with writing(path) as beside:
            beside.mkdir()
            (beside / text).write_text(text, encoding="utf-8")
    assert [p.name for p in path.iterdir()] == ["two"]
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_says_how_to_go_on() -> None:
    error = cannot_write(Path("run"), OSError(errno.ENOSPC, "No space left on device"))
    assert "No space left" in str(error) and "--resume" in str(error)


def test_a_path_through_a_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="is a file"):
        write_text(tmp_path / "file" / "inside.txt", "x")
