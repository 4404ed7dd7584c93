"""Every command of docs/ladder.md runs, in the order of the page, with fewer steps."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.cli import command_line

PAGE = Path(__file__).parents[2] / "docs" / "ladder.md"
FEW = ["train.steps=4", "model.d_model=16", "decode.max_length=12"]


@pytest.mark.learns
def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("glassformer.lab.ladder.plots.draw", lambda report, folder: [])  # has its own tests
    page = PAGE.read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    Path("phrasebook.toml").write_text(recipe, encoding="utf-8")
    commands = re.findall(r"^glassformer (.*)$", page, flags=re.MULTILINE)
    for command in commands:
        arguments = shlex.split(command)
        if arguments[0] == "data":
            arguments += ["--size", "200"]
        result = CliRunner().invoke(
            command_line(), [*arguments, *(FEW if arguments[0] in ("ladder", "ablate") else [])]
        )
        assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception}"
    assert [command.split()[0] for command in commands] == ["data", "ladder", "ablate", "translate"]
    for kind, systems in (("ladder", 7), ("ablate", 3)):
        report = json.loads(Path("runs", kind, "report.json").read_text(encoding="utf-8"))
        assert [system["state"] for system in report["systems"]] == ["done"] * systems
