"""Atomic writes, resumable files and lock files."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import UserError
from glassformer.files import (
    ResumableFile,
    atomic_write,
    exclusive_lock,
    remove,
    remove_temporary_files,
    write_error,
    write_text,
)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError), atomic_write(path) as beside:
        beside.write_text("half", encoding="utf-8")
        raise RuntimeError("pulled the plug")
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["kept.txt"]


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    for text in ("one", "two"):
        with atomic_write(path) as beside:
            beside.mkdir()
            (beside / text).write_text(text, encoding="utf-8")
    assert [p.name for p in path.iterdir()] == ["two"]
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_is_reported_with_a_hint() -> None:
    error = write_error(Path("run"), OSError(errno.ENOSPC, "No space left on device"))
    assert "No space left" in str(error) and "--resume" in str(error)


def test_a_path_through_a_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="is a file"):
        write_text(tmp_path / "file" / "inside.txt", "x")


class TestUnfinished:
    def test_a_resumable_file_continues_after_the_last_commit(self, tmp_path: Path) -> None:
        path = tmp_path / "out.txt"
        with pytest.raises(KeyboardInterrupt), ResumableFile(path, ["recipe", 1]) as out:
            assert out.lines == 0
            out.write("eins\n")
            out.commit(1)
            out.write("half of the sec")
            raise KeyboardInterrupt
        assert not path.exists()
        with ResumableFile(path, ["recipe", 1]) as out:
            assert out.lines == 1
            out.write("zwei\n")
        assert path.read_text(encoding="utf-8") == "eins\nzwei\n"
        assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]

    @pytest.mark.parametrize("lost", ["recipe", "note", "part", "shorter"])
    def test_a_resumable_file_starts_again_if_it_cannot_be_resumed(self, tmp_path: Path, lost: str) -> None:
        path = tmp_path / "out.txt"
        with pytest.raises(KeyboardInterrupt), ResumableFile(path, "a") as out:
            out.write("eins\nzwei\n")
            out.commit(2)
            raise KeyboardInterrupt
        if lost == "note":
            (tmp_path / ".out.txt.part.json").write_text("{", encoding="utf-8")
        if lost == "part":
            (tmp_path / ".out.txt.part").unlink()
        if lost == "shorter":
            (tmp_path / ".out.txt.part").write_text("ei", encoding="utf-8")
        with ResumableFile(path, "b" if lost == "recipe" else "a") as out:
            assert out.lines == 0
            out.write("uno\n")
        assert path.read_text(encoding="utf-8") == "uno\n"


def test_remove_and_remove_temporary_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    remove(tmp_path / "folder")
    assert not list(tmp_path.iterdir())
    (tmp_path / ".half.1.tmp").mkdir()
    (tmp_path / ".half.2.tmp").touch()
    (tmp_path / "kept.tmp").touch()
    remove_temporary_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.tmp"]


def test_a_deleted_lock_file_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The previous owner deletes the file between our `open` and our `flock`."""
    fcntl = pytest.importorskip("fcntl")
    lock, really, calls = tmp_path / ".lock", fcntl.flock, []

    def late(file: Any, how: int) -> None:
        calls.append(how)
        if len(calls) == 1:
            lock.unlink()
        really(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with exclusive_lock(lock, "here"):
        assert lock.exists()
        with pytest.raises(UserError, match="Another process is here"), exclusive_lock(lock, "here"):
            pass
    assert not lock.exists()
