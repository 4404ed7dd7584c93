"""The engine as a WebAssembly module, in Node: it imports nothing and translates as the native library does."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import shutil
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from glassformer.engine import build
from glassformer.engine.library import FP32, INT8
from glassformer.engine.model import Worker
from glassformer.engine.wasm import PACKAGED, ZIGLANG, compile_wasm
from tests.unit.engine.random_models import EOS, options, random_model

pytestmark = pytest.mark.slow

SHAPE: dict[str, Any] = {
    "vocab": 211, "d_model": 48, "heads": 3, "d_ff": 67, "encoder_layers": 3, "decoder_layers": 2, "pre_norm": 1,
    "positions": 1, "scaled_embedding": 1, "output_bias": 1, "norm_epsilon": 1e-5,
}  # fmt: skip
SOURCES = [[3, 5, 7, 11, EOS], [199, EOS], [13, 17, 19, 23, 29, 31, 37, 41, 43, 47, EOS]]
LIMITS = [17, 5, 23]
SIZES = [(rows, inputs, outputs, precision) for rows, inputs, outputs in [(1, 1, 1), (5, 67, 129), (200, 31, 37)]
         for precision in (FP32, INT8)]  # fmt: skip


@pytest.fixture(scope="module")
def module(zig: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled module."""
    path = tmp_path_factory.mktemp("wasm") / "engine.wasm"
    compile_wasm(path)
    return path


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed: apt-get install nodejs")
    return found


def run(node: str, module: Path, model: Path, searches: list[Any]) -> dict[str, Any]:
    job = [{"options": list(bytes(search)), "sources": SOURCES, "limits": LIMITS} for search in searches]
    done = subprocess.run(
        [node, str(Path(__file__).with_name("wasm_check.mjs")), str(module), str(model)],
        input=json.dumps({"searches": job, "sizes": SIZES}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("precision", [FP32, INT8])
def test_translations_are_those_of_the_native_library(
    module: Path, node: str, native: ctypes.CDLL, tmp_path: Path, precision: int
) -> None:
    model = random_model(SHAPE | {"precision": precision}, scale=0.3)
    model.save(tmp_path / "packed")
    # The end is a token that this model often writes.
    searches = [options(beam=beam, eos=92, no_repeat_ngram=2) for beam in (1, 4)]
    result = run(node, module, tmp_path / "packed", searches)
    assert result["sets"] == "simd128 scalar"
    for search, found in zip(searches, result["translations"], strict=True):
        expected = [one for sentence in Worker(model).translate(SOURCES, search, LIMITS) for one in sentence]
        assert any(one.finished for one in expected)
        assert [one.tokens for one in expected] == found["tokens"]
        assert [one.log_probability for one in expected] == pytest.approx(found["logProbabilities"], rel=1e-3)
    for size, (simd, scalar) in zip(SIZES, result["products"], strict=True):
        assert simd == (scalar if size[-1] == INT8 else pytest.approx(scalar, rel=1e-5, abs=1e-5)), size


def test_the_same_bytes_come_out_in_another_folder(
    module: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources = shutil.copytree(build.CSRC, tmp_path / "elsewhere" / "sources")
    monkeypatch.setattr(build, "CSRC", sources)
    monkeypatch.setenv("ZIG_LOCAL_CACHE_DIR", str(tmp_path / "cache"))  # compile again
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    compile_wasm(tmp_path / "again.wasm")
    assert (tmp_path / "again.wasm").read_bytes() == module.read_bytes()
    assert module.stat().st_size < 120_000


def test_the_packaged_module_was_compiled_from_the_present_sources(module: Path) -> None:
    if version("ziglang") != ZIGLANG:
        pytest.skip(f"another version of ziglang writes other bytes: pip install ziglang=={ZIGLANG}")
    assert PACKAGED.read_bytes() == module.read_bytes(), "say: python -m glassformer.engine.wasm"


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(build.CompilerError, match="pip install ziglang"):
        compile_wasm(tmp_path / "engine.wasm")
