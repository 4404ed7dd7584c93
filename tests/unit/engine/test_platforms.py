"""The engine compiled for other systems with zig, and the library for Windows run by Wine."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glassformer.engine import build
from glassformer.engine.library import SIGNATURES

pytestmark = pytest.mark.slow

# Target of zig: `sys.platform` and architecture.
TARGETS = {
    "x86_64-windows-gnu": ("win32", "x86_64"),
    "aarch64-windows-gnu": ("win32", "aarch64"),
    "x86_64-macos": ("darwin", "x86_64"),
    "aarch64-macos": ("darwin", "aarch64"),
    "x86_64-linux-gnu.2.28": ("linux", "x86_64"),
    "aarch64-linux-gnu.2.28": ("linux", "aarch64"),
}
WINDOWS = "x86_64-windows-gnu"
PROGRAM = Path(__file__).with_name("platform_check.c")
EXACT = {"tokens", "set", "int8", "code", "absent", "small", "saved", "opened"}  # the rest is nearly equal
WINE = shutil.which("wine64") or shutil.which("wine") or shutil.which("/usr/lib/wine/wine64")  # Debian's wine64


# clang does not vectorize a maximum that keeps NaN, and warns about each of these loops.
FLAGS = ("-Werror", "-Wno-pass-failed")


def cross_compile(zig: list[str], target: str, folder: Path) -> Path:
    system, architecture = TARGETS[target]
    path = folder / f"engine-{target}{build.SUFFIXES.get(system, '.so')}"
    command = [*zig, "-target", target]
    build.cross_compile_library(command, path, system=system, architecture=architecture, extra=FLAGS, all_sets=True)
    return path


@pytest.mark.parametrize("target", TARGETS)
def test_the_engine_compiles_for(zig: list[str], target: str, tmp_path: Path) -> None:
    compiled = cross_compile(zig, target, tmp_path).read_bytes()
    start = {"win32": b"MZ", "darwin": b"\xcf\xfa\xed\xfe", "linux": b"\x7fELF"}[TARGETS[target][0]]
    assert compiled.startswith(start)
    assert not [name for name in SIGNATURES if name.encode() + b"\0" not in compiled], "functions are not exported"


def test_this_compiler_compiles_every_instruction_set(tmp_path: Path) -> None:
    """A set that does not compile is left out without an error, because an old compiler may not know it."""
    command, machine = build.compiler(), platform.machine().lower()
    if command is None:
        pytest.skip("there is no C compiler")
    try:
        build.compile_objects(
            [*command, *build.FLAGS], build.ARCHITECTURES.get(machine, machine), tmp_path, all_sets=True
        )
    except build.CompilerError as error:
        if re.search("unrecognized|unknown|unsupported", str(error)):
            pytest.skip("the compiler is too old")
        raise


def test_zig_is_the_compiler_where_there_is_no_other(zig: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    assert build.compiler() == [*zig, "-mcpu=baseline"]


def test_windows_does_not_use_gcc(zig: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    assert build.compiler() == [*zig, "-mcpu=baseline"]
    assert build.library_name().endswith(".dll")
    monkeypatch.setenv("CC", "gcc")
    assert build.compiler() == ["gcc"]


@pytest.fixture
def wine(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """`wine(program, *arguments)`: run a program for Windows, with a configuration of its own."""
    if WINE is None:
        pytest.skip("wine is not installed: apt-get install wine64")
    environment = os.environ | {
        "WINEPREFIX": str(tmp_path / "wine"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "mscoree,mshtml=",  # neither .NET nor a browser
        "LC_ALL": "C.UTF-8",
    }

    def run(program: Path, *arguments: str) -> str:
        return output([WINE, program, *arguments], tmp_path, environment)

    yield run
    server = shutil.which("wineserver") or str(Path(WINE).resolve().with_name("wineserver"))
    subprocess.run([server, "--kill"], env=environment, check=False)
    subprocess.run([server, "--wait"], env=environment, check=False)


def output(command: list[str | Path], folder: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compile_program(command: list[str], program: Path, *libraries: str) -> Path:
    flags = ("-std=c11", "-O1", "-D_GNU_SOURCE", f"-I{build.CSRC}")
    subprocess.run([*command, *flags, str(PROGRAM), *libraries, "-o", str(program)], check=True)
    return program


@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="Wine runs programs of this CPU")
def test_windows_computes_the_same(
    zig: list[str], wine: Callable[..., str], compiled: Callable[..., Path], tmp_path: Path
) -> None:
    """Operations, translations, and packed files with a name beyond ASCII, for every instruction set of the CPU."""
    here = compile_program(build.compiler() or [], tmp_path / "check", "-ldl")
    expected = output([here, compiled("plain"), "linux"], tmp_path).splitlines()
    there = compile_program([*zig, "-target", WINDOWS], tmp_path / "check.exe")
    found = wine(there, cross_compile(zig, WINDOWS, tmp_path).name, "windows").splitlines()
    assert (tmp_path / "windows-é한").read_bytes() == (tmp_path / "linux-é한").read_bytes()
    assert len(found) == len(expected) > 50
    for ours, theirs in zip(found, expected, strict=True):
        what, *numbers = ours.split()
        if what in EXACT:
            assert ours == theirs
        else:
            expected_numbers = pytest.approx([float(x) for x in theirs.split()[1:]], rel=1e-4, abs=1e-5)
            assert what == theirs.split()[0] and [float(x) for x in numbers] == expected_numbers
