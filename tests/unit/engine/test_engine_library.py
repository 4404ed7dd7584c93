"""Finding, compiling and loading the native library."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from glassformer.engine import build
from glassformer.engine import library as engine_library
from glassformer.engine.library import DISABLE, SIGNATURES, SearchOptions, Shape, Unavailable, check
from glassformer.engine.model import NativeModel
from tests.families import VOCAB
from tests.unit.engine.torch_models import settings_of


@pytest.fixture
def uncached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process that has not loaded the library, on a computer that does not have it."""
    engine_library.library.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "library_name", lambda: "engine-absent.so")
    return monkeypatch


def test_disabled_engine_is_unavailable(uncached: pytest.MonkeyPatch) -> None:
    uncached.setenv(DISABLE, "1")
    with pytest.raises(Unavailable, match=r"^GLASSFORMER_NO_ENGINE is set$"):
        NativeModel.load(Path("absent"), settings_of(), VOCAB, "fp32")


def test_engine_without_a_compiler_is_unavailable(uncached: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\necho 'no licence found' >&2\nexit 3\n")
    failing.chmod(0o755)
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 3\n")
    silent.chmod(0o755)
    for command, reason in (
        (failing, "no licence found"),
        (silent, "exit code 3"),
        ("absent-compiler", "No such file"),
    ):
        uncached.setenv("CC", str(command))
        with pytest.raises(Unavailable, match=f"could not be compiled: .*{reason}"):
            engine_library.library()
    uncached.delenv("CC")
    uncached.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(Unavailable, match="could not be compiled: no C compiler was found"):
        engine_library.library()
    assert not list((tmp_path / "glassformer").rglob("*")), "a failed compilation leaves nothing behind"


def test_cache_folder_that_cannot_be_written_makes_the_engine_unavailable(
    uncached: pytest.MonkeyPatch, tmp_path: Path, native: ctypes.CDLL
) -> None:
    (tmp_path / "file").write_text("not a folder")
    uncached.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    uncached.setattr(build, "compile_objects", lambda *_: [])
    uncached.setattr(build, "_require", lambda _: None)
    with pytest.raises(Unavailable, match=r"could not be compiled: .*Not a directory"):
        engine_library.library()


def test_file_that_is_not_a_library_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "broken.so").write_bytes(b"\x7fELF broken")
    with pytest.raises(Unavailable, match="could not be loaded"):
        engine_library.load_library(tmp_path / "broken.so")


def test_error_codes_become_exceptions(native: ctypes.CDLL) -> None:
    check(0)
    with pytest.raises(MemoryError, match="out of memory"):
        check(-1)
    for code, text in ((-2, "invalid argument"), (-3, "packed model is damaged"), (-5, "cancelled"), (-99, "unknown")):
        with pytest.raises(ValueError, match=text):
            check(code)


def test_instruction_sets(native: ctypes.CDLL) -> None:
    names = native.gf_instruction_sets().decode().split()
    assert names[-1] == "scalar" and len(set(names)) == len(names)
    assert native.gf_use_instruction_set(b"abacus") < 0
    assert native.gf_instruction_set().decode() in names


def test_structures_and_functions_are_those_of_the_header() -> None:
    header = (build.CSRC / "engine.h").read_text(encoding="utf-8")
    for structure, end in ((Shape, "} gf_settings;"), (SearchOptions, "} gf_search;")):
        declared = header[: header.index(end)].rsplit("typedef struct {", 1)[1]
        declared = "".join(line.split("/*")[0] for line in declared.splitlines())
        fields = [
            (name.strip(), kind)
            for kind, names in (statement.split(maxsplit=1) for statement in declared.split(";") if statement.strip())
            for name in names.split(",")
        ]
        kinds = {ctypes.c_int32: "int32_t", ctypes.c_float: "float"}
        assert fields == [(name, kinds[kind]) for name, kind in structure._fields_]
    for name in SIGNATURES:
        assert f"{name}(" in header
