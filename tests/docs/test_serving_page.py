"""docs/serving.md and the files in docs/launch: options exist, the service starts as they say."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from glassformer.cli import command_line

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "serving.md", DOCS / "serving.ko.md"]
UNIT, CONTAINER = DOCS / "launch" / "glassformer.service", DOCS / "launch" / "Containerfile"


def options(*command: str) -> set[str]:
    """Return the options of a command, as its parser knows them."""
    found = typer.main.get_command(command_line((command[0],)))
    for name in command:
        found = found.commands[name]  # type: ignore[attr-defined]
    return {option for parameter in found.params for option in parameter.opts}


def given(arguments: list[str]) -> set[str]:
    return {argument for argument in arguments if argument.startswith("--")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:[^`]* )?(--[a-z-]+)", text)) - {"--admin"}
    assert len(named) > 12 and named <= options("serve") | options("keys", "add")
    for command in re.findall(r"^    glassformer (.*)$", text, flags=re.MULTILINE):
        name, *arguments = shlex.split(command)
        known = options("serve") if name == "serve" else options("keys", "add")
        assert given(arguments) <= known


def test_both_languages_have_the_same_parts() -> None:
    english, korean = (page.read_text(encoding="utf-8") for page in PAGES)
    for part in (r"^#+ ", r"^\|", r"`(/[a-z_/0-9]+)`"):
        counts = [len(set(re.findall(part, text, flags=re.MULTILINE))) for text in (english, korean)]
        assert counts[0] == counts[1]
    assert set(re.findall(r"`(--[a-z-]+)", korean)) == set(re.findall(r"`(--[a-z-]+)", english))


def test_the_unit_and_the_container_start_the_service() -> None:
    (start,) = re.findall(r"^ExecStart=\S+/glassformer (.*)$", UNIT.read_text(), flags=re.MULTILINE)
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", CONTAINER.read_text(), flags=re.MULTILINE)
    for arguments in (shlex.split(start), json.loads(entry)[1:]):
        assert arguments[0] == "serve" and given(arguments) <= options("serve")


def test_the_container_copies_files_that_exist() -> None:
    root = DOCS.parent
    for names in re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINER.read_text(), flags=re.MULTILINE):
        assert all((root / name).exists() for name in names.split())
    assert "USER 10001" in CONTAINER.read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "glassformer.service"
    # The program is not installed here: any that exists will do.
    unit.write_text(UNIT.read_text().replace("/opt/glassformer/bin/glassformer", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "glassformer.service" not in done.stderr, done.stderr
