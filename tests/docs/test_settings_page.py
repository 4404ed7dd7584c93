"""The page of settings has every one of them, with its values, its default and its meaning as they are in the code."""

from __future__ import annotations

import re
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from glassformer.settings import (
    MODELS,
    DataSettings,
    DecodeSettings,
    TokenizerSettings,
    TrainSettings,
    setting_names,
    tasks,
)

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
SECTIONS: dict[str, type[BaseModel]] = {
    "data": DataSettings,
    "tokenizer": TokenizerSettings,
    "train": TrainSettings,
    "decode": DecodeSettings,
}
KINDS = {bool: "`true`, `false`", int: "whole number", float: "number", str: "folder", list: "list"}


def values(kind: Any) -> str:
    """What may be given, in words."""
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    if get_origin(kind) is Annotated:
        return values(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return values(next(part for part in get_args(kind) if part is not type(None)))
    if get_origin(kind) is list and (names := literals(kind)):
        return f"list of {', '.join(f'`{name}`' for name in names)}"
    return KINDS[get_origin(kind) or kind]


def literals(kind: Any) -> list[str]:
    """Every value of the Literals inside a type."""
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    return [value for part in get_args(kind) for value in literals(part)]


def unsaid(path: str, field: FieldInfo) -> str:
    """What holds where nobody says anything."""
    if field.is_required():
        return "needed" if path == "data.train" else "chosen"
    return "none" if field.default is None else f"`{str(field.default).lower()}`"


def row(path: str, field: FieldInfo) -> str:
    assert field.description, path
    return f"| `{path}` | {values(field.annotation)} | {unsaid(path, field)} | {field.description}"


def expected() -> list[str]:
    rows = [
        f"{row(f'{section}.{name}', field)} |"
        for section, model in SECTIONS.items()
        for name, field in model.model_fields.items()
    ]
    families: dict[str, dict[str, list[str]]] = {}  # of each name what is told of it, and of which families
    for family, model in MODELS.items():
        for name, field in model.model_fields.items():
            if name != "family":
                families.setdefault(name, {}).setdefault(row(f"model.{name}", field), []).append(family)
    return rows + [f"{told} | {', '.join(having)} |" for rows in families.values() for told, having in rows.items()]


def test_every_setting_stands_there_as_it_is_in_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if re.match(r"\| `\w+\.\w+` \|", line)]
    assert rows == expected()
    named = {*re.findall(r"`(\w+(?:\.\w+)?)`", page)}
    assert set(setting_names()) <= named


def test_every_task_and_family_is_named() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for task, spec in tasks().items():
        assert f"| `{task}` | {', '.join(f'`{family}`' for family in spec.families)} |" in page
