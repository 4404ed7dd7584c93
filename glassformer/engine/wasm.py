"""Compile the native engine (csrc/) to WebAssembly with 128-bit SIMD: `python -m glassformer.engine.wasm [OUT.wasm]`.

The compiler is the `ziglang` package from PyPI. The module imports nothing, so a page starts it with
`WebAssembly.instantiate(bytes)`. It exports `memory`, the gf_* functions of csrc/engine.h without gf_model_save and
gf_model_open, and malloc, aligned_alloc and free. Call `_initialize()` first. A packed model has to lie at a multiple
of 64 bytes: `aligned_alloc(64, size)`, then gf_model_from_memory.

One version of ziglang always writes the same bytes, in whichever folder it runs. The package contains the module
(engine.wasm), so that `glassformer export --to page` needs no compiler. Compile it again after every change of csrc/;
a test compares both.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path

from glassformer.engine import build

PACKAGED = Path(__file__).with_name("engine.wasm")
ZIGLANG = "0.17.0"  # the version that compiled it

TARGET = ("-target", "wasm32-wasi")
# clang does not vectorize a maximum that keeps NaN, and warns about each of these loops.
FLAGS = (*TARGET, *build.FLAGS, "-g0", "-Wno-pass-failed")
STACK_BYTES = 1 << 18
LINK = (
    *(*TARGET, "-mexec-model=reactor", "-s", "-Wl,--export-dynamic", f"-Wl,-z,stack-size={STACK_BYTES}"),
    *(f"-Wl,--export={name}" for name in ("malloc", "aligned_alloc", "free")),
)


def compile_wasm(target: Path) -> None:
    """Compile the engine to the WebAssembly module `target`, which appears only when it is complete.

    Raises:
        build.CompilerError: if ziglang is missing or the sources do not compile.
    """
    if importlib.util.find_spec("ziglang") is None:
        raise build.CompilerError("The compiler for WebAssembly is missing. Hint: pip install ziglang")
    zig = [sys.executable, "-m", "ziglang", "cc"]
    with tempfile.TemporaryDirectory() as folder:
        objects = build.compile_objects([*zig, *FLAGS], "wasm32", Path(folder), all_sets=True)
        build.link([*zig, *LINK, *objects], Path(folder), target)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("usage: python -m glassformer.engine.wasm [OUT.wasm]")
    try:
        compile_wasm(Path(sys.argv[1]) if sys.argv[1:] else PACKAGED)
    except build.CompilerError as error:
        sys.exit(str(error))
