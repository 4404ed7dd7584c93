"""The workflows and the files around the package agree with the Makefile, the README and pyproject.toml."""

from __future__ import annotations

import glob
import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages import ROOT, commands, read

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYPROJECT = tomllib.loads(read("pyproject.toml"))
TARGETS = set(re.search(r"^\.PHONY: (.*)$", read("Makefile"), re.MULTILINE)[1].split())


def workflow(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in workflow(path)["jobs"].values() for step in job["steps"]]


def run_lines(path: Path) -> list[str]:
    return [line for step in steps(path) for line in step.get("run", "").splitlines()]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_do_little(path: Path) -> None:
    found = workflow(path)
    assert found["permissions"] == {"contents": "read"} and found["concurrency"]["group"]
    assert True in found and found["name"]  # YAML 1.1 reads the key `on` as true
    for name, job in found["jobs"].items():
        assert job["timeout-minutes"] and job["name"], name
        assert set(job.get("permissions", ())) <= {"pages", "id-token", "attestations"}, name
        for step in job["steps"]:
            assert "run" in step or re.fullmatch(r"[\w-]+/[\w-]+@(v\d+(\.\d+)*|release/v\d+)", step["uses"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_the_commands_of_a_workflow_exist(path: Path) -> None:
    for line in run_lines(path):
        program, *arguments = line.split()
        if program == "make":
            assert set(arguments) <= TARGETS, line
        elif program == "glassformer":
            assert line in commands("README.md"), line
        else:
            assert program == "python" or (ROOT / program).exists(), line
    for script in re.findall(r"\.ci/[\w.]+", path.read_text(encoding="utf-8")):
        assert (ROOT / script).is_file(), script


def test_the_workflows_run_the_commands_of_the_readme() -> None:
    ran = {line for path in WORKFLOWS for line in run_lines(path)} | {"make test"}  # by .ci/run
    assert {line for line in commands("README.md") if line.startswith("make ")} - ran == {"make studio", "make install"}
    assert sum(line.startswith("glassformer ") for line in ran) == 3
    assert read(".ci/run").rstrip().endswith("make test")


def test_versions_of_python_agree() -> None:
    prefix = "Programming Language :: Python :: 3."
    classified = [f"3.{c.removeprefix(prefix)}" for c in PYPROJECT["project"]["classifiers"] if c.startswith(prefix)]
    matrix = workflow(ROOT / ".github/workflows/test.yml")["jobs"]["readme"]["strategy"]["matrix"]
    assert matrix["python"] == classified and PYPROJECT["project"]["requires-python"] == f">={classified[0]}"


def test_pre_commit_checks_with_the_versions_of_constraints() -> None:
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", read("constraints.txt"), re.MULTILINE))
    hooks = workflow(ROOT / ".pre-commit-config.yaml")["repos"]
    revisions = {hook["repo"].rpartition("/")[2]: hook["rev"] for hook in hooks}
    assert revisions["ruff-pre-commit"] == f"v{pinned['ruff']}"
    assert revisions["mirrors-clang-format"] == f"v{pinned['clang-format']}"


def test_every_file_of_the_package_is_in_the_wheel() -> None:
    package = ROOT / "glassformer"
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["glassformer"]
    shipped = {path for pattern in patterns for path in glob.glob(pattern, root_dir=package, recursive=True)}
    files = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    others = {path for path in files if path.endswith((".py", ".pyc", "/.clang-format")) or "/engine-" in path}
    assert len(shipped) > 150 and files - others <= shipped, files - others - shipped


def test_the_package_page_is_the_readme_with_absolute_links() -> None:
    page = str(metadata("glassformer").get_payload())
    source = PYPROJECT["project"]["urls"]["Source"]
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert len(links) > 20 and all(link.startswith("https://") for link in links)
    assert re.sub(rf"{source}/(raw|blob)/main/", "", page).strip() == read("README.md").strip()


@pytest.mark.parametrize("name", ["bug", "feature", "question"])
def test_forms_for_issues_are_complete(name: str) -> None:
    form = workflow(ROOT / f".github/ISSUE_TEMPLATE/{name}.yml")
    assert form["name"] and form["description"] and form["labels"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert fields and all(field["id"] and field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_addresses_of_the_repository_agree() -> None:
    source = PYPROJECT["project"]["urls"]["Source"]
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["repository-code"] == source and citation["license"] == PYPROJECT["project"]["license"]
    assert citation["url"] == PYPROJECT["project"]["urls"]["Documentation"]
    assert "version" not in citation  # its only place is pyproject.toml
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", ".github/ISSUE_TEMPLATE/config.yml"):
        assert source in read(name), name
