"""Every recipe has valid settings and a comment that names its data, and pages name recipes that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from glassformer.settings import read_settings

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))
PAGES = [ROOT / "README.md", ROOT / "README.ko.md", *(ROOT / "docs").rglob("*.md")]


def files_of(data: dict[str, Any]) -> list[Path]:
    return [Path(path).relative_to(ROOT / "recipes") for split in ("train", "valid", "test") for path in data[split]]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_right_and_names_its_data(recipe: Path) -> None:
    raw = read_settings(recipe)  # refuses what is wrong
    text = recipe.read_text(encoding="utf-8")
    comment = " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    assert "next to this file" in comment
    for file in files_of({"valid": [], **raw["data"]}):
        split = file.name.split(".")[0]
        assert file.parts[0] in comment
        assert file.name in comment or f"{split}.*" in comment or "idx" in file.name, file
    for other in re.findall(r"[\w-]+\.toml", comment):
        assert (ROOT / "recipes" / other).exists(), other


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_recipes_that_a_page_names_are_there(page: Path) -> None:
    named = set(re.findall(r"recipes/([\w-]+\.toml)", page.read_text(encoding="utf-8")))
    assert not named - {"NAME.toml"} - {recipe.name for recipe in RECIPES}
