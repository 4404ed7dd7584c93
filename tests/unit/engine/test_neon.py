"""The NEON kernels, cross-compiled and run under emulation."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from glassformer.engine import build

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        platform.machine() in ("aarch64", "arm64"), reason="the other tests run these kernels on this CPU"
    ),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """neon_check.c, compiled."""
    for tool, package in ((COMPILER, "gcc-aarch64-linux-gnu"), (EMULATOR, "qemu-user")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt-get install {package}")
    command = [COMPILER, *build.FLAGS, "-Werror"]
    folder = tmp_path_factory.mktemp("neon")
    objects = build.compile_objects(command, "aarch64", folder, all_sets=True)
    source, target = Path(__file__).with_name("neon_check.c"), folder / "neon_check"
    subprocess.run(
        [*command, "-static", f"-I{build.CSRC}", str(source), *objects, "-lm", "-o", str(target)], check=True
    )
    return target


def run(*command: object) -> str:
    done = subprocess.run([EMULATOR, *map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_neon_kernels_agree_with_the_scalar_ones(program: Path) -> None:
    run(program)


def test_a_cpu_without_dot_products_runs_the_scalar_kernels(program: Path) -> None:
    assert run(program, "sets") == "neon scalar\n"
    assert run("-cpu", "cortex-a72", program, "sets") == "scalar\n"
