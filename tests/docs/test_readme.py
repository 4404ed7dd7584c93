"""Every command and snippet of the READMEs runs, in the order in which it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.phrasebook.corpus import phrasebook

ROOT = Path(__file__).parents[2]
READMES = ["README.md", "README.ko.md"]
# `make test` is running right now and has set up the environment; `make demo` does that too
# and runs `glassformer demo`, which tests/learn runs.
RUN_ELSEWHERE = {"make demo", "make check", "make test", "make install", "source .venv/bin/activate"}


def blocks(name: str, language: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def commands(name: str) -> list[str]:
    lines = [line for block in blocks(name, "bash") for line in block.splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.strip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A person's own text, small: the READMEs call it train.en and train.de."""
    folder = tmp_path_factory.mktemp("home")
    book = phrasebook(size=300)
    for split, triples in (("train", book.train), ("valid", book.valid), ("test", book.test)):
        for side, language in (("en", "en"), ("de", "fr")):
            lines = "".join(f"{triple.text(language)}\n" for triple in triples)
            (folder / f"{split}.{side}").write_text(lines, encoding="utf-8")
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    return folder


@pytest.mark.learns
def test_commands_and_snippets_run(folder: Path) -> None:
    bin_folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    ran = []
    for command in commands("README.md"):
        if command in RUN_ELSEWHERE:
            continue
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        ran.append(command)
    for snippet in blocks("README.md", "python"):
        done = subprocess.run(
            [sys.executable, "-c", snippet], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{snippet}\n{done.stderr}"
    for needed in ("train", "translate", "evaluate", "data check", "explain", "info"):
        assert any(command.startswith(f"glassformer {needed}") for command in ran), f"README never shows {needed}"


def test_both_languages_show_the_same_commands() -> None:
    assert commands("README.md") == commands("README.ko.md")
    assert blocks("README.md", "python") == blocks("README.ko.md", "python")


PAGES = [*READMES, *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md")))]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    targets = re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    here = [target for target in targets if "://" not in target and not target.startswith("#")]
    missing = [target for target in here if not (page.parent / target.split("#")[0]).exists()]
    assert not missing
    assert here or name not in READMES


def test_the_files_that_pages_name_are_there() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[\w/.]+)`", text))
    assert len(named) > 5
    assert not [name for name in named if not (ROOT / name).exists()]
