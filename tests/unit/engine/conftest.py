"""The native library, compiled once for all test processes, in the variants that the tests load."""

from __future__ import annotations

import ctypes
import getpass
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glassformer.engine import build
from glassformer.engine import library as engine_library
from glassformer.files import cache_folder
from glassformer.operating_system import lock

ROOT = Path(__file__).parents[3]
SANITIZERS = ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-g1")
# One allocation above this is an error: no small file may ask for so much.
LARGEST_ALLOCATION = 256  # MB


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`compiled("name", *flags)`: a library with further flags, compiled by whichever test process asks first."""
    if build.compiler() is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder

    def library_of(name: str, *flags: str) -> Path:
        path = folder / f"{name}-{build.library_name()}"
        with (folder / f"{name}.lock").open("w") as file:
            lock(file, wait=True)
            if not path.exists():
                build.compile_library(path, extra=flags)
        return path

    return library_of


@pytest.fixture(scope="session")
def native(compiled: Callable[..., Path]) -> ctypes.CDLL:
    """The library as the package uses it."""
    cached = cache_folder() / "engine" / build.library_name()
    if not cached.exists():
        with build.replacing(cached) as unfinished:
            shutil.copyfile(compiled("plain"), unfinished)
    return engine_library.library()


class InstructionSets:
    """The names of all instruction sets that this CPU can run; each is in use while it is iterated over."""

    def __init__(self, native: ctypes.CDLL) -> None:
        self.native = native

    def __iter__(self) -> Iterator[str]:
        for name in self.native.gf_instruction_sets().decode().split():
            self.native.gf_use_instruction_set(name.encode())
            yield name


@pytest.fixture
def instruction_sets(native: ctypes.CDLL) -> Iterator[InstructionSets]:
    """`for name in instruction_sets`: use every instruction set, one after the other."""
    before = native.gf_instruction_set()
    yield InstructionSets(native)
    native.gf_use_instruction_set(before)


@pytest.fixture(scope="session")
def zig() -> Iterator[list[str]]:
    """The C compiler of ziglang. The C libraries that it compiles first are kept for the next session."""
    pytest.importorskip("ziglang", reason="ziglang is not installed: pip install ziglang")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZIG_GLOBAL_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"zig-cache-{getpass.getuser()}"))
        yield [sys.executable, "-m", "ziglang", "cc"]


@pytest.fixture
def sanitized(compiled: Callable[..., Path]) -> Callable[..., str]:
    """`sanitized("module", *arguments)`: run a module of this folder with the library that checks every memory access.

    AMX is emulated in this library. Without the sanitizers' runtime it is compiled without them.
    """
    found = Path(
        subprocess.run(
            [*(build.compiler() or []), "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
        ).stdout.strip()
    )
    flags = SANITIZERS if found.is_absolute() and found.exists() else ()
    path = compiled("checked", "-O1", "-DEMULATE_AMX", *flags)

    def run(module: str, *arguments: str) -> str:
        environment = dict(os.environ) | {
            "ASAN_OPTIONS": f"detect_leaks=0:max_allocation_size_mb={LARGEST_ALLOCATION}",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        if flags:
            environment["LD_PRELOAD"] = str(found)
        done = subprocess.run(
            [sys.executable, "-m", f"tests.unit.engine.{module}", str(path), *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
