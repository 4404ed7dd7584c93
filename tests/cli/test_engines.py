"""The engines of the command line: the native one on a CPU, PyTorch elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import bad, glassformer, good

from glassformer.engine import library

pytestmark = pytest.mark.skipif(library.build.compiler() is None, reason="there is no C compiler")

WITHOUT_TORCH = """
import sys
from glassformer.cli import main
sys.argv = ["glassformer", "translate", "run", *sys.argv[1:], "I am a student"]
main()
assert "torch" not in sys.modules and "numpy" not in sys.modules
"""


@pytest.mark.parametrize("options", [[], ["--precision", "int8", "--beam", "1"], ["--shortlist"]])
def test_translate_does_not_import_pytorch(workdir: Path, options: list[str]) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *options], check=True, capture_output=True)


def test_both_engines_translate_alike(workdir: Path) -> None:
    native, torch = (good(f"translate run -i test.en --scores --engine {name}").out for name in ("native", "torch"))
    assert [line.split("\t")[1] for line in native.splitlines()] == [line.split("\t")[1] for line in torch.splitlines()]
    scored = [
        json.loads(good(f"evaluate run --source test.en --reference test.fr --json --engine {name}").out)
        for name in ("native", "torch")
    ]
    assert scored[0]["bleu"] == scored[1]["bleu"]


def test_without_the_native_library_pytorch_is_used_with_a_notice(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = good("translate run -i test.en").out
    monkeypatch.setenv(library.DISABLE, "1")
    library.library.cache_clear()
    try:
        result = glassformer("translate run -i test.en")
        assert result.code == 0 and result.out == expected
        assert result.err.count(library.DISABLE) == 1
        assert json.loads(good("info run --json").out)["engine"] == "torch"
        assert "native engine cannot run this" in bad("translate run hello --engine native").err
    finally:
        library.library.cache_clear()


def test_info_names_the_engine_and_the_instruction_set(workdir: Path) -> None:
    record = json.loads(good("info run --json").out)
    assert record["engine"] == "native"
    assert library.library().gf_instruction_set().decode() in record["engine_reason"]
    assert "engine on this machine: native" in good("info run").out


def test_an_unknown_engine_is_refused(workdir: Path) -> None:
    assert "There is no engine 'gpu'" in bad("translate run hello --engine gpu").err
