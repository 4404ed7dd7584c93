"""Cache entries are complete or absent, made once by concurrent processes, and made again if damaged."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.data import cache as caching
from glassformer.data.cache import Cache
from glassformer.errors import UserError

# Prepares a corpus; every process that begins to make an entry writes a file, and may be told to hang or to wait.
PREPARER = """
import os, sys, time
from pathlib import Path
from glassformer.settings import Limits
from glassformer.data import parallel_text as corpus, process_pool as parallel, preparation
from glassformer.data.cache import Cache
folder, hang = Path(sys.argv[1]), sys.argv[2]
corpus.PAIRS_PER_BLOCK = 10
parallel.cores = lambda: 2
check = preparation._check
def hanging(block):
    (folder / "hanging").touch()
    time.sleep(3600)
if hang == "workers":
    preparation._measure_block, hang = hanging, ""
def noted(beside, *rest):
    (folder / f"made-by-{os.getpid()}").touch()
    about = check(beside, *rest)
    if hang:
        (folder / "hanging").touch()
        time.sleep(float(hang))
    return about
preparation._check = noted
files = corpus.parallel_files([str(folder / "train.tsv")])
splits, report = preparation.prepare_corpus(files, None, None, Limits(), cache=Cache(folder / "cache"))
tokenizer = preparation.train_tokenizer(splits.train, 300)
ids = preparation.encode_corpus(splits.train, tokenizer)
print(splits.train.fingerprint, len(ids), ids.ids.sum())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = (f"source {n} of many\ttarget {n}\n" for n in range(200))
    (tmp_path / "train.tsv").write_text("".join(lines), encoding="utf-8")
    return tmp_path


def preparer(folder: Path, hang: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PREPARER, str(folder), hang]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def preparer_output(folder: Path) -> str:
    return preparer(folder).communicate()[0]


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a process has made a file."""
    while not path.exists():
        assert process.poll() is None, f"the process ended without {path}"
        time.sleep(0.01)


def entries(folder: Path) -> list[str]:
    return sorted(path.name.partition("-")[0] for path in (folder / "cache").iterdir() if path.is_dir())


def test_an_entry_of_a_killed_process_is_made_again(folder: Path) -> None:
    victim = preparer(folder, hang="3600")
    wait_for(folder / "hanging", victim)
    victim.kill()
    victim.communicate()
    assert victim.returncode == (1 if sys.platform == "win32" else -signal.SIGKILL)
    (left,) = [path for path in (folder / "cache").iterdir() if path.is_dir()]
    assert left.name.startswith(".text-") and left.name.endswith(".tmp")
    assert preparer_output(folder).split()[1] == "180"
    assert entries(folder) == ["ids", "text", "vocabulary"]


def test_worker_processes_exit_with_a_killed_parent(folder: Path) -> None:
    """Worker processes inherit the lock: while one of them is alive, no other process could make the entry."""
    victim = preparer(folder, hang="workers")
    wait_for(folder / "hanging", victim)
    victim.kill()
    victim.communicate()
    assert preparer_output(folder).split()[1] == "180"


def test_of_two_concurrent_processes_one_makes_the_entry(folder: Path) -> None:
    both = [preparer(folder, hang="0.3") for _ in range(2)]
    outputs = {process.communicate()[0] for process in both}
    assert len(outputs) == 1 and "180" in outputs.pop()
    assert len(list(folder.glob("made-by-*"))) == 1
    assert entries(folder) == ["ids", "text", "vocabulary"]


class Maker:
    """Counts how often it was asked to make something."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, folder: Path) -> dict[str, Any]:
        self.times += 1
        (folder / "one.bin").write_bytes(b"12345")
        (folder / "two.bin").write_bytes(b"1234567")
        return {"answer": 42}


def emptied(path: Path) -> None:
    os.truncate(path, 0)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a file is missing": lambda path: (path / "two.bin").unlink(),
    "a file is shorter": lambda path: os.truncate(path / "one.bin", 4),
    "a file is longer": lambda path: os.truncate(path / "one.bin", 6),
    "nothing is said about it": lambda path: (path / "about.json").unlink(),
    "the index is truncated": lambda path: os.truncate(path / "about.json", 9),
    "the index is emptied": lambda path: emptied(path / "about.json"),
    "the index has another type": lambda path: (path / "about.json").write_text("[]") and None,
    "a file in its place": lambda path: (shutil.rmtree(path), path.write_text("x"))[0],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_made_again(damage: Callable[[Path], None], tmp_path: Path) -> None:
    cache, make = Cache(tmp_path), Maker()
    path, about = cache.get_or_create("kind", ["key"], make)
    assert about["answer"] == 42
    damage(path)
    assert cache.get_or_create("kind", ["key"], make)[0] == path
    assert make.times == 2 and (path / "two.bin").read_bytes() == b"1234567"


def test_an_entry_is_made_once_per_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, make = Cache(tmp_path), Maker()
    for parts in (["a"], ["b"], ["a"]):
        cache.get_or_create("kind", parts, make)
    assert make.times == 2
    monkeypatch.setattr(caching, "CACHE_FORMAT", 99)
    cache.get_or_create("kind", ["a"], make)
    assert make.times == 3


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> dict[str, Any]:
        (folder / "half").write_bytes(b"h")
        raise UserError("the text is bad")

    with pytest.raises(UserError, match="the text is bad"):
        Cache(tmp_path).get_or_create("kind", [], fail)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_an_unwritable_cache_folder_is_reported_with_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError) as caught:
        Cache(tmp_path / "file" / "cache").get_or_create("kind", [], Maker())
    assert "data.cache=" in caught.value.hint and str(tmp_path / "file") in caught.value.where


def test_a_full_disk_is_reported_with_the_setting(tmp_path: Path) -> None:
    def full(folder: Path) -> dict[str, Any]:
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="No space left") as caught:
        Cache(tmp_path).get_or_create("kind", [], full)
    assert "free space" in caught.value.hint and "data.cache=" in caught.value.hint


class TestDigests:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "text"
        path.write_text("eins")
        self.settle(path, 100)
        return path

    def settle(self, path: Path, seconds: int) -> None:
        os.utime(path, (time.time() - seconds, time.time() - seconds))

    def test_changed_content_of_the_same_size_is_detected(self, file: Path, tmp_path: Path) -> None:
        cache = Cache(tmp_path / "cache")
        (before,) = cache.digests([file])
        file.write_text("zwei")
        assert cache.digests([file]) != [before]
        self.settle(file, 50)
        assert cache.digests([file]) != [before]

    def test_a_touched_file_has_the_same_digest(self, file: Path, tmp_path: Path) -> None:
        cache = Cache(tmp_path / "cache")
        before = cache.digests([file])
        file.touch()
        assert cache.digests([file]) == before

    def test_a_file_is_read_once(self, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        cache = Cache(tmp_path / "cache")
        before = cache.digests([file])
        monkeypatch.setattr(caching, "_digest", lambda path: pytest.fail("it was read again"))
        assert cache.digests([file, file]) == before * 2

    def test_a_file_that_changed_just_now_is_not_remembered(self, file: Path, tmp_path: Path) -> None:
        """It may change again within the resolution of the clock, without changing its size."""
        cache = Cache(tmp_path / "cache")
        file.write_text("drei")
        stamp = file.stat().st_mtime_ns
        (before,) = cache.digests([file])
        file.write_text("vier")
        os.utime(file, ns=(stamp, stamp))
        assert cache.digests([file]) != [before]

    def test_another_process_may_clear_the_cache_meanwhile(
        self, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cache, digest = Cache(tmp_path / "cache"), caching._digest
        (tmp_path / "new").write_text("fünf")
        self.settle(tmp_path / "new", 100)
        expected = [*cache.digests([file]), digest(tmp_path / "new")]

        def digest_after_clear(path: Path) -> str:
            clear = f"from glassformer.data.cache import Cache; Cache({str(tmp_path / 'cache')!r}).clear()"
            subprocess.run([sys.executable, "-c", clear], check=True)
            assert not (tmp_path / "cache" / "digests.json").exists()
            return digest(path)

        monkeypatch.setattr(caching, "_digest", digest_after_clear)
        assert cache.digests([file, tmp_path / "new"]) == expected

    def test_damaged_digests_are_ignored(self, file: Path, tmp_path: Path) -> None:
        cache = Cache(tmp_path / "cache")
        before = cache.digests([file])
        (tmp_path / "cache" / "digests.json").write_text("{")
        assert cache.digests([file]) == before


def test_entries_are_listed_and_cleared(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    assert cache.entries() == []
    cache.get_or_create("kind", ["a"], Maker())
    (entry,) = cache.entries()
    assert entry.name.startswith("kind-") and entry.megabytes > 12e-6
    assert cache.clear() == [entry] and cache.entries() == []


def test_an_entry_that_another_process_is_making_is_not_cleared(folder: Path) -> None:
    maker = preparer(folder, hang="3")
    wait_for(folder / "hanging", maker)
    cache = Cache(folder / "cache")
    assert cache.clear() == [] and len(cache.entries()) == 1
    assert maker.communicate(timeout=60)[0].split()[1] == "180"
