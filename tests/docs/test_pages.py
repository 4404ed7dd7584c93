"""Links and anchors lead somewhere, English and Korean have the same structure, and named files and symbols exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from pages import BLOCK, DOCS, ROOT, headings, read

from glassformer.settings import setting_names

READMES = ["README.md", "README.ko.md"]
PAGES = [*READMES, *(str(page.relative_to(ROOT)) for page in sorted(DOCS.rglob("*.md")))]
TRANSLATED = [page for page in PAGES if page.endswith(".ko.md")]
PACKAGE = ROOT / "glassformer"


def test_the_quick_start_and_the_guides_are_translated() -> None:
    guides = {f"docs/guides/{page.name}" for page in DOCS.glob("guides/*.md")}
    english = {"README.md", "docs/quick-start.md", "docs/quiz.md"} | (guides - set(TRANSLATED))
    assert {page.replace(".md", ".ko.md") for page in english} <= set(TRANSLATED)


@pytest.mark.parametrize("korean", TRANSLATED)
def test_both_languages_have_the_same_structure(korean: str) -> None:
    english = korean.replace(".ko.md", ".md")
    assert headings(korean) == headings(english)
    assert BLOCK.findall(read(korean)) == BLOCK.findall(read(english))
    for count in (r"^\|", r"^ *[-*] ", r"!\[", r"^<details"):  # rows of tables, list items, pictures, answers
        found = [len(re.findall(count, BLOCK.sub("", read(page)), re.MULTILINE)) for page in (korean, english)]
        assert found[0] == found[1], count
    assert re.search("[가-힣]", read(korean))


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    targets = [t for t in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", read(name))) if "://" not in t]
    missing = [target for target in targets if not (page.parent / target.split("#")[0]).exists()]
    assert not missing
    for target in targets:
        place, _, anchor = target.partition("#")
        if anchor:
            titles = re.findall(r"^#+ (.*)$", (page.parent / place).read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles], target
    assert targets or name not in READMES


def defined(path: Path) -> set[str]:
    """The names of a module: functions, classes, methods, parameters and variables."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize("page", ["docs/quiz.md", "docs/quiz.ko.md"])
def test_the_answers_of_the_quiz_name_symbols_that_exist(page: str) -> None:
    answers = re.findall(r"\[`([^`]+)`\]\(\.\./glassformer/([^)]+)\), `(\w+)`\. (.*)", read(page))
    assert len(answers) == 20
    known = {*setting_names(), *(name for path in PACKAGE.rglob("*.py") for name in defined(path))}
    for shown, path, symbol, answer in answers:
        assert shown == path and symbol in defined(PACKAGE / path), (path, symbol)
        for other in re.findall(r"`([A-Za-z_]\w*(?:\.\w+)?)`", answer):  # symbols, methods (A.start) and settings
            assert other in known or set(other.split(".")) <= known, other


def drawn_files(picture: str) -> set[str]:
    return set(re.findall(r'class="file"[^>]*>([^<]+)<', read(f"docs/images/{picture}")))


def test_files_that_pages_name_exist() -> None:
    names = ("CONTRIBUTING", "docs/reliability", "docs/extending", "docs/architecture", "docs/speed")
    pages = [read(f"{name}.md") for name in names]
    named = {name for page in pages for name in re.findall(r"`((?:tests|docs)/[\w/.]+)`", page)}
    inside = {name for page in pages for name in re.findall(r"`([a-z_]+/[\w/]*\.?[a-z]*)`", page)}
    inside = {name for name in inside | drawn_files("architecture.svg") if (PACKAGE / name.split("/")[0]).exists()}
    assert len(named) > 12 and len(inside) > 30
    assert not [name for name in named if not (ROOT / name).exists()]
    assert not [name for name in inside if not (PACKAGE / name).exists()]
    assert len(drawn_files("architecture.svg")) == 19
    assert drawn_files("architecture.svg") == drawn_files("architecture.ko.svg")
