"""Finding, compiling and loading the native library."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import re
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from glassformer.engine import build
from glassformer.engine import library as engine_library
from glassformer.engine.library import DISABLE, MAX_TOKENS, SIGNATURES, SearchOptions, Shape, Unavailable, check
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
    uncached.setattr(importlib.util, "find_spec", lambda _: None)  # ziglang
    with pytest.raises(Unavailable, match="could not be compiled: no C compiler was found"):
        engine_library.library()
    assert not list((tmp_path / "glassformer").rglob("*")), "a failed compilation leaves nothing behind"


def test_cache_folder_that_cannot_be_written_makes_the_engine_unavailable(
    uncached: pytest.MonkeyPatch, tmp_path: Path, native: ctypes.CDLL
) -> None:
    (tmp_path / "file").write_text("not a folder")
    uncached.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    uncached.setattr(build, "compile_objects", lambda *_, **__: [])
    uncached.setattr(build, "_require", lambda _: None)
    with pytest.raises(Unavailable, match=r"could not be compiled: .*Not a directory"):
        engine_library.library()


def test_file_that_is_not_a_library_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "broken.so").write_bytes(b"\x7fELF broken")
    with pytest.raises(Unavailable, match="could not be loaded"):
        engine_library.load_library(tmp_path / "broken.so")


@pytest.fixture
def compilations(uncached: pytest.MonkeyPatch, compiled: Callable[..., Path]) -> list[Path]:
    """The targets of the compilations; each takes a moment and copies a library that exists."""
    plain, targets = compiled("plain"), []

    def compile_library(target: Path) -> None:
        targets.append(target)
        time.sleep(0.05)
        with build.replacing(target) as unfinished:
            shutil.copyfile(plain, unfinished)

    uncached.setattr(build, "compile_library", compile_library)
    return targets


def cached_library(tmp_path: Path) -> Path:
    path = tmp_path / "glassformer" / "engine" / "engine-absent.so"
    path.parent.mkdir(parents=True)
    return path


def test_cached_library_that_cannot_be_loaded_is_compiled_again(compilations: list[Path], tmp_path: Path) -> None:
    path = cached_library(tmp_path)
    path.write_bytes(b"\x7fELF broken")
    assert engine_library.library().gf_error_text(0) == b"no error"
    assert compilations == [path]


def test_library_that_can_never_be_loaded_is_compiled_once(
    uncached: pytest.MonkeyPatch, compilations: list[Path], tmp_path: Path
) -> None:
    """As in a cache folder that is mounted with noexec."""
    cached_library(tmp_path)
    uncached.setattr(shutil, "copyfile", lambda _, target: target.write_bytes(b"\x7fELF broken"))
    for _ in range(2):
        with pytest.raises(Unavailable, match="could not be loaded"):
            engine_library.library()
    assert len(compilations) == 1


def test_threads_compile_the_library_once(compilations: list[Path]) -> None:
    with ThreadPoolExecutor(4) as pool:
        for loaded in pool.map(lambda _: engine_library.library(), range(4)):
            assert loaded.gf_error_text(0) == b"no error"
    assert len(compilations) == 1


def test_user_without_a_home_folder(uncached: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    pwd = pytest.importorskip("pwd", reason="Windows always has a home folder")
    uncached.delenv("XDG_CACHE_HOME")
    uncached.delenv("HOME", raising=False)
    uncached.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(Unavailable, match="no cache folder"):
        engine_library.library()


def test_library_is_named_by_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        names.add(build.library_name())
    assert len(names) == 2


def test_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(build, "_require", lambda _: None)
    (tmp_path / "library.so").write_bytes(b"linked")
    target = tmp_path / "cache" / "library.so"
    build.link([], tmp_path, target)
    umask = os.umask(0)
    os.umask(umask)
    assert target.read_bytes() == b"linked" and target.stat().st_mode & 0o777 == 0o666 & ~umask
    (tmp_path / "library.so").write_bytes(b"linked again")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        build.link([], tmp_path, target)
    assert target.read_bytes() == b"linked" and list(target.parent.iterdir()) == [target]


def test_compiler_may_have_spaces_and_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "my tools" / "cc"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    for given, command in (
        (f"{path}", [str(path)]),
        (f"'{path}' -m64", [str(path), "-m64"]),
        ("ccache gcc", ["ccache", "gcc"]),
    ):
        monkeypatch.setenv("CC", given)
        assert build.compiler() == command
    monkeypatch.setenv("CC", "'gcc")
    with pytest.raises(build.CompilerError, match="quotation"):
        build.compiler()


def test_numbers_beyond_32_bits_are_refused() -> None:
    for structure, name in ((Shape, "d_ff"), (SearchOptions, "min_length")):
        assert getattr(structure(**{name: 2**31 - 1}), name) == 2**31 - 1
        for value in (2**31, 2**32, -(2**31) - 1):
            with pytest.raises(ValueError, match=f"{name}={value} exceeds 32 bits"):
                structure(**{name: value})


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
    functions = header + (build.CSRC / "training.h").read_text(encoding="utf-8")
    for name in SIGNATURES:
        assert f"{name}(" in functions
    for name in ("NO_MEMORY", "BAD_ARGUMENT", "NOT_FINITE"):
        assert re.search(rf"GF_{name} = {getattr(engine_library, name)}\b", header)
    assert f"GF_MAX_TOKENS = 1 << {MAX_TOKENS.bit_length() - 1}," in header
