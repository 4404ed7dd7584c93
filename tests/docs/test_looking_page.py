"""Every command and the snippet of docs/looking.md run, on a small run of that name."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.cli import command_line

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "looking.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _beside_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "tests" / "compat" / "runs" / "format-1", tmp_path / "RUN")
    monkeypatch.chdir(tmp_path)


def test_the_commands_run() -> None:
    commands = re.findall(r"^glassformer (.*)$", PAGE, flags=re.MULTILINE)
    for command in commands:
        result = CliRunner().invoke(command_line(), shlex.split(command))
        assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception}"
    assert {command.split()[0] for command in commands} == {"explain", "heads"}
    assert Path("student.html").stat().st_size > 10_000


def test_the_snippet_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(snippet, {})
    assert "def products(query, key):" in capsys.readouterr().out
