"""The lessons: one Markdown file per lesson and language, read by the studio and the tests.

A file starts with a title (`# …`) and has five sections, in this order: the claim, the view of the studio, a common
misreading, Python, and the exercise. Besides Markdown it contains three kinds of fenced blocks:

    ```python           runs after the Python blocks above it
    ```toml view        what the studio shows: view, run, text and further parameters of its address, and a caption
    ```toml exercise    a question whose answer is checked: see `Exercise`
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
LANGUAGES = ("en", "ko")
SECTIONS = 5

_BLOCK = re.compile(r"^```(?P<kind>python|toml view|toml exercise)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class View:
    """A view of the studio: the parameters of its address, and what to look at."""

    caption: str
    address: dict[str, str | int]  # "view", "run", "text" and parameters of the view


@dataclass(frozen=True)
class Exercise:
    """A question with a checked answer.

    question, hint, solution  Markdown
    answer                    a number, or the correct option
    options                   the options of a choice; empty if the answer is a number
    tolerance                 maximum difference between a given number and the answer
    check                     Python expression of the answer, evaluated after the blocks of the lesson
    """

    question: str
    answer: float | str
    hint: str
    solution: str
    check: str
    options: tuple[str, ...] = ()
    tolerance: float = 0.0


@dataclass(frozen=True)
class Lesson:
    """A parsed lesson. `parts` has its content in order: Markdown, Python code, views and exercises."""

    name: str  # the file's name without its ending, as in "09-self-attention-by-hand"
    language: str
    title: str
    parts: tuple[tuple[str, Any], ...]  # ("markdown", str), ("python", str), ("view", View), ("exercise", Exercise)

    def of_kind(self, kind: str) -> list[Any]:
        """Return all parts of a kind."""
        return [content for found, content in self.parts if found == kind]


def parse(text: str, name: str, language: str) -> Lesson:
    """Parse the Markdown of a lesson. ValueError if a block is not valid."""
    title, _, body = text.partition("\n")
    if not title.startswith("# "):
        raise ValueError(f"{name}: the first line must be the title, '# …'")
    parts: list[tuple[str, Any]] = []
    end = 0
    for block in _BLOCK.finditer(body):
        parts.append(("markdown", body[end : block.start()].strip()))
        parts.append(_read_block(block["kind"], block["body"]))
        end = block.end()
    parts.append(("markdown", body[end:].strip()))
    return Lesson(name, language, title[2:].strip(), tuple(part for part in parts if part[1]))


def _read_block(kind: str, body: str) -> tuple[str, Any]:
    if kind == "python":
        return kind, body
    values = tomllib.loads(body)
    if kind == "toml view":
        return "view", View(values.pop("caption"), values)
    values["options"] = tuple(values.get("options", ()))
    return "exercise", Exercise(**values)


@cache
def lessons(language: str) -> tuple[Lesson, ...]:
    """Return all lessons of a language in order."""
    paths = sorted((FOLDER / language).glob("*.md"))
    return tuple(parse(path.read_text(encoding="utf-8"), path.stem, language) for path in paths)
