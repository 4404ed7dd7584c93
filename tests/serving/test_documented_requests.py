"""The requests of docs/serving.md, sent as they are written."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from server_process import ServerProcess

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("page", ["serving.md", "serving.ko.md"])
def test_the_requests(server: ServerProcess, page: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>I am a student.</p>", encoding="utf-8")
    commands = re.findall(r"^curl (.*)$", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(commands) >= 8
    for command in commands:
        words = shlex.split(command.replace("http://localhost:5000", server.url).replace("shakespeare", "story"))
        done = subprocess.run(
            ["curl", "--silent", "--show-error", "--fail-with-body", *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert "error" not in done.stdout
