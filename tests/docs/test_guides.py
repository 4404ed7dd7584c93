"""Every command and snippet of the guides and of the quick start runs, on small data of these names.

The guides share a folder, in the order of the navigation: the first one trains the model that the others use.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import blocks, commands, write_other_data, write_parallel_text
from typer.testing import CliRunner

from glassformer.cli import command_line

GUIDES = ("translate-my-own-data", "fine-tune", "serve", "share", "low-bleu")
FEW = ("model.layers=2", "model.d_model=16", "model.heads=2", "model.d_ff=16", "decode.max_length=20")
STEPS = ("train.steps=4", "train.validate_every=4")
RUN_ELSEWHERE = ("make ", "source ")


def run(command: str) -> None:
    """Run a command of a page in this process, with few steps and a small model; with a pipe or torchrun in a shell."""
    program, *arguments = shlex.split(command)
    if program != "glassformer":
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        few = " ".join(FEW + STEPS) if program == "torchrun" else ""
        done = subprocess.run(
            f"{command} {few}", shell=True, env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"}, capture_output=True
        )
        assert done.returncode == 0, f"{command}\n{done.stderr.decode()}"
        return
    if arguments[0] == "train" and "--resume" not in arguments:
        arguments += STEPS if "--from" in arguments else FEW + STEPS
    result = CliRunner().invoke(command_line(), arguments)
    assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception}"


@pytest.mark.learns
def test_commands_and_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_parallel_text(tmp_path)
    write_other_data(tmp_path)
    for guide in GUIDES:
        page = f"docs/guides/{guide}.md"
        for command in commands(page):
            run(command)
            if not Path("runs/demo-en-fr").exists() and Path("runs/en-de/README.md").exists():
                shutil.copytree("runs/en-de", "runs/demo-en-fr")
        for snippet in blocks(page, "python"):
            exec(snippet, {})
    for command in commands("docs/quick-start.md"):
        if not command.startswith(RUN_ELSEWHERE):
            run(command)
    for snippet in blocks("docs/architecture.md", "python") + blocks("docs/api.md", "python"):
        exec(snippet, {})
    assert Path("student.html").stat().st_size > 10_000 and Path("shared.out.1-of-2").exists()
