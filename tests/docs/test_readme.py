"""Every command and snippet of the READMEs runs, in the order of the page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from pages import blocks, commands, write_parallel_text

from tests import forked

# `make test` is running right now and has set up the environment; `make demo` does that too
# and runs `glassformer demo`, which tests/learn runs; tests/browser runs the studio.
RUN_ELSEWHERE = {"make demo", "make studio", "make check", "make test", "make install", "source .venv/bin/activate"}


def run(command: str, folder: Path) -> tuple[int | None, str]:
    """Run a line as a shell would: in a forked process where it is `glassformer` alone. Return its code and output."""
    words = shlex.split(command)
    if words[0] == "glassformer" and "|" not in words:
        shorter = ["train.steps=10"] if words[1] == "train" and "train.steps" not in command else []
        child = forked.start(forked.command_line([*words[1:], *shorter]), folder, folder / "streams")
        return child.wait(), child.out + child.err
    bin_folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.learns
def test_commands_and_snippets_run(tmp_path: Path) -> None:
    write_parallel_text(tmp_path)
    ran = [command for command in commands("README.md") if command not in RUN_ELSEWHERE]
    for command in ran:
        code, said = run(re.sub(r"(train\.steps=)\d+", r"\g<1>10", command), tmp_path)
        assert code == 0, f"{command}\n{said}"
    for snippet in blocks("README.md", "python"):
        shorter = re.sub(r'("train\.steps": )\d+', r"\g<1>10", snippet)
        child = forked.start(partial(exec, shorter, {}), tmp_path, tmp_path / "streams")
        assert child.wait() == 0, f"{snippet}\n{child.err}"
    for needed in ("train", "translate", "evaluate", "data check", "explain", "info"):
        assert any(command.startswith(f"glassformer {needed}") for command in ran), f"README never shows {needed}"
