"""Compile the native engine (csrc/) to a shared library with the system's C compiler, or with the one of ziglang.

`pip install` runs this through setup.py. It needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

CSRC = Path(__file__).parent / "csrc"
# Compiled once; kernels.c is compiled once per instruction set.
SOURCES = ("platform", "cpu", "model", "layers", "search", "constraints", "session", "operations", "training")

FLAGS = (
    *("-std=c11", "-O3", "-fvisibility=hidden", "-D_GNU_SOURCE", "-Wall", "-Wextra"),
    # Let the loops of kernels.c be vectorized. NaN and infinity keep their meaning.
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fopenmp-simd"),
)

AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mfma", "-mprefer-vector-width=512")
AMX = (*AVX512, "-mamx-tile", "-mamx-int8")
# Name of the table in kernels.h, name for people, and compiler flags.
INSTRUCTION_SETS = {
    "x86_64": (
        ("amx", "amx_int8", AMX),
        ("avx512", "avx512_vnni", AVX512),
        ("avx2", "avx2", ("-mavx2", "-mfma", "-mf16c")),
    ),
    "aarch64": (("neon", "neon", ("-march=armv8.2-a+dotprod",)),),
    "wasm32": (("simd128", "simd128", ("-msimd128",)),),
}
ZIG_FLAGS = {"-march=armv8.2-a+dotprod": "-mcpu=generic+dotprod"}  # zig names the features of CPUs in its own way
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}  # other names of the same
SUFFIXES = {"darwin": ".dylib", "win32": ".dll"}  # of a shared library by `sys.platform`; others have .so


class CompilerError(Exception):
    """The compiler is missing or failed."""


def compiler() -> list[str] | None:
    """Return the command of the C compiler: $CC, cc, gcc, clang or the package ziglang; None if there is none.

    $CC is a path, which may contain spaces, or a command with arguments, quoted as in a shell. On Windows only $CC and
    ziglang are used: GCC does not align the stack for AVX there, and Clang needs the libraries of Visual Studio.

    Raises:
        CompilerError: if a quotation in $CC does not end.
    """
    if given := os.environ.get("CC"):
        if shutil.which(given):
            return [given]
        try:
            return shlex.split(given)
        except ValueError as error:
            raise CompilerError(f"CC={given}: {error}") from None
    names = () if sys.platform == "win32" else ("cc", "gcc", "clang")
    if found := next(filter(None, map(shutil.which, names)), None):
        return [found]
    if importlib.util.find_spec("ziglang") is None:
        return None
    # Without -mcpu, zig compiles for this CPU alone. The library may be used by others.
    return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]


def fingerprint() -> str:
    """Return a hash of the sources and of this file, which names the library built from them."""
    digest = hashlib.sha256()
    for path in (Path(__file__), *sorted(CSRC.glob("*.[ch]"))):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def library_name() -> str:
    """Return the file name of the library for the current sources and this kind of machine.

    Machines of several kinds may share a home folder.
    """
    return f"engine-{fingerprint()}-{platform.machine()}{SUFFIXES.get(sys.platform, '.so')}"


def compile_library(target: Path, *, extra: tuple[str, ...] = ()) -> None:
    """Compile the library to `target`, which appears only when it is complete.

    Instruction sets that the compiler does not know are left out.

    Args:
        extra: further flags, for example of a sanitizer.

    Raises:
        CompilerError: if there is no compiler, or the portable sources do not compile.
    """
    command = compiler()
    if command is None:
        hint = "pip install ziglang" if sys.platform == "win32" else "install cc, or: pip install ziglang"
        raise CompilerError(f"no C compiler was found. Hint: {hint}")
    architecture = platform.machine().lower()
    cross_compile_library(
        command, target, system=sys.platform, architecture=ARCHITECTURES.get(architecture, architecture), extra=extra
    )


def cross_compile_library(
    command: list[str],
    target: Path,
    *,
    system: str,
    architecture: str,
    extra: tuple[str, ...] = (),
    all_sets: bool = False,
) -> None:
    """Compile the library to `target` for a system, as named by `sys.platform`, and an architecture.

    Args:
        command: a compiler for this system and architecture, with its arguments.
        extra: further flags.
        all_sets: see `compile_objects`.

    Raises:
        CompilerError: if the compiler is missing or fails.
    """
    # Code of Windows can always be moved, and its mathematical functions are part of the C library.
    position, libraries = ([], []) if system == "win32" else (["-fPIC"], ["-lm"])
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder)
        objects = compile_objects([*command, *FLAGS, *position, *extra], architecture, build, all_sets=all_sets)
        link([*command, "-shared", *extra, *objects, *libraries], build, target)


def compile_objects(command: list[str], architecture: str, build: Path, *, all_sets: bool = False) -> list[str]:
    """Compile the sources to object files in the folder `build`; return their paths.

    Instruction sets that the compiler does not know are left out, or are an error with `all_sets`.
    """
    objects, defines = [], []
    for name, label, flags in INSTRUCTION_SETS.get(architecture, ()):
        object_file = str(build / f"kernels_{name}.o")
        known = [ZIG_FLAGS.get(flag, flag) if "ziglang" in command else flag for flag in flags]
        tables = (f"-DKERNELS_{name.upper()}", f"-DKERNELS=kernels_{name}", f"-DKERNELS_NAME={label}")
        complaint = _compile([*command, *known, *tables, "-c", "kernels.c", "-o", object_file])
        if complaint is None:
            objects.append(object_file)
            defines.append(f"-DHAVE_{name.upper()}")
        elif all_sets:
            raise CompilerError(complaint.strip())
    scalar = ("-DKERNELS=kernels_scalar", "-DKERNELS_NAME=scalar")
    for source, more in (("kernels", scalar), *((name, tuple(defines)) for name in SOURCES)):
        objects.append(str(build / f"{source}.o"))
        _require([*command, *more, "-c", f"{source}.c", "-o", objects[-1]])
    return objects


def link(command: list[str], build: Path, target: Path) -> None:
    """Run the linker in the folder `build`; `target` appears only when it is complete."""
    linked = build / target.name
    _require([*command, "-o", str(linked)])
    with replacing(target) as unfinished, unfinished.open("wb") as file:
        file.write(linked.read_bytes())
        file.flush()
        os.fsync(file.fileno())  # a library that a power failure cut off would crash every process that loads it


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a path for a new file, which replaces `target` on success and is removed on failure.

    The path is in a temporary folder next to `target`: no other thread or process uses it, and the file gets the usual
    permissions, which those of `tempfile.mkstemp` are not.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as folder:
        unfinished = Path(folder) / target.name
        yield unfinished
        unfinished.replace(target)


def _compile(command: list[str]) -> str | None:
    """Run the compiler; return its error output if it failed."""
    try:
        done = subprocess.run(command, cwd=CSRC, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"


def _require(command: list[str]) -> None:
    if complaint := _compile(command):
        raise CompilerError(complaint.strip())
