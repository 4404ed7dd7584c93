"""Packed files of the native engine, and the copy of a run's int8 weights in the cache folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glassformer.engine import build
from glassformer.engine import model as engine_model
from glassformer.engine.library import Unavailable
from glassformer.engine.model import NativeModel, Worker
from glassformer.files import cache_folder
from tests.families import VOCAB
from tests.unit.engine.torch_models import native_transformer, save, search, sentences, settings_of, torch_transformer

pytestmark = pytest.mark.usefixtures("native")

SOURCES, LIMITS = sentences(7, 3, 13), [11, 5, 17]


def translations(model: NativeModel) -> object:
    return Worker(model).translate(SOURCES, search(beam=3, no_repeat_ngram=1), LIMITS)


def packed(folder: Path | None = None) -> list[Path]:
    return sorted((folder or cache_folder() / "engine").glob("*.packed"))


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The weights of a run, and a cache folder without anything in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return save(torch_transformer(), tmp_path / "model.safetensors")


def load(weights: Path, precision: str = "int8") -> NativeModel:
    return NativeModel.load(weights, settings_of(), VOCAB, precision)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_packed_file_gives_the_same_translations(tmp_path: Path, precision: str) -> None:
    over = {"positions": "learned", "max_positions": 43, "norm": "pre", "output_bias": True}
    model = native_transformer(torch_transformer(**over), tmp_path / "w", precision, **over)
    other = tmp_path / "model-old.packed"
    other.write_bytes(b"a file of somebody else")
    path = tmp_path / "model-new.packed"
    model.save(path)
    opened = NativeModel.open(path)
    assert bytes(opened.shape) == bytes(model.shape) and opened.nbytes == model.nbytes == path.stat().st_size
    assert translations(opened) == translations(model)
    again = native_transformer(torch_transformer(**over), tmp_path / "w", precision, **over)
    again.save(tmp_path / "again.packed")
    assert (tmp_path / "again.packed").read_bytes() == path.read_bytes()  # no byte is left to chance
    assert sorted(p.name for p in tmp_path.glob("*.packed")) == ["again.packed", "model-new.packed", "model-old.packed"]


def test_int8_copy_is_written_once_and_used_again(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = translations(load(weights))
    [copy] = packed()
    written = copy.stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr(NativeModel, "_pack", None)  # so what follows can only come from the copy
        assert translations(load(weights)) == expected
    assert packed() == [copy] and copy.stat().st_mtime_ns == written
    assert not list(copy.parent.glob(".*"))  # nothing unfinished


def test_fp32_weights_are_not_copied(weights: Path) -> None:
    load(weights, "fp32")
    assert not packed()


def test_int8_copy_follows_the_weights(weights: Path) -> None:
    before = translations(load(weights))
    [old] = packed()
    model = torch_transformer()
    model.decoder[0].feed_forward.expand.weight.detach().mul_(-1)
    save(model, weights)
    os.utime(weights, ns=(1, 1))  # not newer than the copy
    after = translations(load(weights))
    [new] = packed()  # the old copy is gone
    assert after != before and new != old
    other = save(torch_transformer(), weights.with_name("other.safetensors"))
    assert translations(load(other)) == before
    assert len(packed()) == 2  # each run has a copy of its own


@pytest.mark.parametrize("same_inode", [True, False])
def test_int8_copy_follows_weights_of_equal_size_and_time(weights: Path, same_inode: bool) -> None:
    """As `cp -p` and `tar` restore them; the inode of a deleted file may be used again."""
    before, status = translations(load(weights)), weights.stat()
    model = torch_transformer()
    model.decoder[0].feed_forward.expand.weight.detach().mul_(-1)
    other = save(model, weights.with_name("other"))
    if same_inode:
        weights.write_bytes(other.read_bytes())
    else:
        other.replace(weights)
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = weights.stat()
    assert (after.st_size, after.st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert (after.st_ino == status.st_ino) == same_inode
    assert translations(load(weights)) != before


def test_int8_copy_of_another_version_of_the_engine_is_not_used(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(weights)
    [old] = packed()
    monkeypatch.setattr(build, "fingerprint", lambda: "another")
    load(weights)
    [new] = packed()
    assert new != old


def test_int8_weights_without_a_cache_folder(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = translations(load(weights))

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(engine_model, "cache_folder", no_home)
    assert translations(load(weights)) == expected


@pytest.mark.parametrize("at", [0, 20, 33, 60, 76, 98, 200, -1])
def test_damaged_int8_copy_is_written_again(weights: Path, at: int) -> None:
    """Also one with other settings that fit the size, as `activation` does."""
    expected = translations(load(weights))
    [copy] = packed()
    whole = copy.read_bytes()
    for damaged in (bytearray(whole), bytearray(whole[:at])):
        if len(damaged) == len(whole):
            damaged[at] ^= 1
        copy.unlink()
        copy.write_bytes(damaged)
        assert translations(load(weights)) == expected
        assert packed() == [copy] and copy.read_bytes() == whole


def test_cache_folder_that_cannot_be_written(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = translations(load(weights))
    (tmp_path / "file").write_text("not a folder")
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc")):  # nobody can write to /proc
        monkeypatch.setenv("XDG_CACHE_HOME", str(place))
        assert translations(load(weights)) == expected
    folder = tmp_path / "occupied"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    load(weights)
    [copy] = packed()
    copy.unlink()
    copy.mkdir()  # a folder where the copy would be
    assert translations(load(weights)) == expected
    assert not list(copy.parent.glob(".*"))


def test_file_that_is_not_packed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        NativeModel.open(tmp_path / "absent")
    for content in (b"", b"GFENGINE", b"\0" * 4096):
        (tmp_path / "w").write_bytes(content)
        with pytest.raises(ValueError, match="damaged or was written by another version"):
            NativeModel.open(tmp_path / "w")


def test_settings_the_engine_does_not_support_are_refused_before_the_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"model\.ablations"):
        NativeModel.load(tmp_path / "absent", settings_of(ablations=["no_norm"]), VOCAB, "int8")
