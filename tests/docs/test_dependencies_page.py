"""docs/dependencies.md lists every dependency, and the lowest versions are those of pyproject.toml."""

from __future__ import annotations

import json
import re
import tomllib

from packaging.requirements import Requirement
from pages import ROOT, read

PROJECT = tomllib.loads(read("pyproject.toml"))
EXTRAS = {
    name: [Requirement(text) for text in listed] for name, listed in PROJECT["project"]["optional-dependencies"].items()
}
CORE = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
TOOLS = ("test", "docs", "package")


def rows(heading: str) -> dict[str, list[str]]:
    """The cells of every row of the table under a heading, by the package in its first cell."""
    section = read("docs/dependencies.md").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines()]
    return {row[0].strip("`"): row[1:] for row in cells if row[0].startswith("`")}


def test_the_tables_are_complete() -> None:
    assert set(rows("Core")) == {one.name for one in CORE}
    users = {one.name for name, listed in EXTRAS.items() if name not in TOOLS for one in listed}
    assert set(rows("Extras")) == users
    building = [Requirement(text) for text in PROJECT["build-system"]["requires"]]
    tools = {one.name for one in [*building, *EXTRAS["test"], *EXTRAS["docs"]]}
    assert set(rows("Building, testing and documentation")) == tools - users
    assert set(rows("Packaging")) == {one.name for one in EXTRAS["package"]}
    assert set(rows("JavaScript")) == set(json.loads(read("package.json"))["devDependencies"])


def test_the_extras_are_named() -> None:
    for package, cells in rows("Extras").items():
        named = {
            name for name, listed in EXTRAS.items() if name not in TOOLS and package in [one.name for one in listed]
        }
        assert set(cells[0].split(", ")) == named, package


def test_every_cell_is_filled() -> None:
    for heading in ("Core", "Extras", "Building, testing and documentation", "Packaging", "JavaScript"):
        for package, cells in rows(heading).items():
            assert all(cells), package
            megabytes, released = cells[-3:-1]
            assert float(megabytes) > 0 and re.fullmatch(r"20\d\d-\d\d-\d\d", released), package


def lowest(requirement: Requirement) -> str:
    return next(one.version for one in requirement.specifier if one.operator == ">=")


def test_the_lowest_versions_are_the_bounds() -> None:
    lines = [line.split("#")[0].strip() for line in read("constraints-lowest.txt").splitlines()]
    pinned = dict(line.split("==") for line in lines if "==" in line)
    users = [*CORE, *(one for name, listed in EXTRAS.items() if name not in TOOLS for one in listed)]
    assert pinned == {one.name: lowest(one) for one in users}
    for one in EXTRAS["test"]:
        assert lowest(one) == pinned.get(one.name, lowest(one)), one


def test_every_recipe_has_data_with_a_licence() -> None:
    section = read("docs/dependencies.md").partition("## Data\n")[2]
    patterns = [name.replace("*", ".*") for name in re.findall(r"`([\w*-]+)`", section)]
    for recipe in (ROOT / "recipes").glob("*.toml"):
        assert any(re.fullmatch(pattern, recipe.stem) for pattern in patterns), recipe.name
