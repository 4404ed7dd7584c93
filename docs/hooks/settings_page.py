"""The tables of docs/settings.md, written from the classes of the settings.

`python docs/hooks/settings_page.py` updates them.
"""

from __future__ import annotations

import re
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from site_paths import DOCS

from glassformer.settings import MODELS, DataSettings, DecodeSettings, TokenizerSettings, TrainSettings

PAGE = DOCS / "settings.md"
SECTIONS: dict[str, type[BaseModel]] = {
    "data": DataSettings,
    "tokenizer": TokenizerSettings,
    "train": TrainSettings,
    "decode": DecodeSettings,
}
KINDS = {bool: "`true`, `false`", int: "whole number", float: "number", str: "folder", list: "list"}


def updated(page: str) -> str:
    """Return the page with the current rows in every table of settings."""
    tables = {section: section_rows(section, model) for section, model in SECTIONS.items()} | {"model": model_rows()}
    for section, rows in tables.items():
        page = re.sub(
            rf"(?:^\| `{section}\.\w+` \|.*\n)+", lambda _, rows=rows: "".join(rows), page, flags=re.MULTILINE
        )
    return page


def section_rows(section: str, model: type[BaseModel]) -> list[str]:
    return [f"{row(f'{section}.{name}', field)} |\n" for name, field in model.model_fields.items()]


def model_rows() -> list[str]:
    """Return one row per setting and meaning, with the families that have it."""
    families: dict[str, dict[str, list[str]]] = {}
    for family, model in MODELS.items():
        for name, field in model.model_fields.items():
            if name != "family":
                families.setdefault(name, {}).setdefault(row(f"model.{name}", field), []).append(family)
    return [f"{told} | {', '.join(having)} |\n" for rows in families.values() for told, having in rows.items()]


def row(path: str, field: FieldInfo) -> str:
    assert field.description, path
    return f"| `{path}` | {values(field.annotation)} | {default(path, field)} | {field.description}"


def default(path: str, field: FieldInfo) -> str:
    if field.is_required():
        return "needed" if path == "data.train" else "chosen"
    return "none" if field.default is None else f"`{str(field.default).lower()}`"


def values(kind: Any) -> str:
    """Return the values that a type allows, in words."""
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
    """Return every value of the Literals inside a type."""
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    return [value for part in get_args(kind) for value in literals(part)]


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
