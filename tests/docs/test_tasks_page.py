"""Every command of docs/tasks.md runs, in the order of the page, on small files with the same names."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from pages import commands, write_other_data
from PIL import Image
from typer.testing import CliRunner

from glassformer.cli import command_line

TINY = ["model.d_model=16", "train.steps=4", "train.validate_every=4"]


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_other_data(tmp_path)
    for number in range(40):
        path = Path("images", ("cat", "dog")[number % 2], f"{number // 2}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 5 * number).save(path)
    ran = set()
    for command in commands("docs/tasks.md"):
        _, *arguments = shlex.split(command)
        result = CliRunner().invoke(command_line(), [*arguments, *(TINY if arguments[0] == "train" else [])])
        assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception}"
        ran.add(arguments[0])
    assert ran == {"train", "predict", "evaluate", "explain", "export", "import"}
    assert Path("piece.mid").read_bytes()[:4] == b"MThd"
