"""Settings as people write them, to settings that hold: a TOML file, `section.name=value`, one over the other."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from glassformer.errors import UserError
from glassformer.files import no_such
from glassformer.limits import SETTINGS_FILE, read_bytes
from glassformer.settings.aliases import current_names
from glassformer.settings.refusal import refuse
from glassformer.settings.run import Settings

Raw = dict[str, Any]


def read_settings(path: Path) -> Raw:
    """The settings of a TOML file; what it leaves open stays open. Paths of data in it are relative to the file."""
    try:
        raw = current_names(read_toml(path))
    except FileNotFoundError:
        raise no_such(path) from None
    except OSError as error:
        raise UserError(
            f"The settings cannot be read: {error.strerror}.",
            where=str(path),
            hint="give a TOML file that you have permission to read",
        ) from None
    except ValueError as error:
        raise UserError(f"This is not TOML: {error}.", where=str(path), hint="correct that line") from None
    try:
        check(raw)
    except UserError as error:
        raise UserError(error.message, where=f"{path}: {error.where}", hint=error.hint) from None
    data = raw.get("data", {})
    if isinstance(data, dict):
        for split in ("train", "valid", "test", "cache"):
            if split in data:
                data[split] = _relative_to(path.parent, data[split])
        for other in data.get("also", []):
            other["train"] = _relative_to(path.parent, other.get("train"))
    return raw


def read_toml(path: Path) -> Raw:
    """Return the content of a TOML file. ValueError for damage, also for nesting too deep for Python."""
    text = read_bytes(path, SETTINGS_FILE, "The settings file").decode("utf-8-sig")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _relative_to(folder: Path, paths: Any) -> Any:
    if isinstance(paths, list):
        return [_relative_to(folder, path) for path in paths]
    return str(folder / paths) if isinstance(paths, str) else paths


def parse_overrides(overrides: Iterable[str]) -> Raw:
    """`["train.lr=3e-4", …]` to nested settings. Values are TOML; a bare word is a string."""
    raw: Raw = {}
    for override in overrides:
        path, equals, text = override.partition("=")
        if not equals or not path.strip():
            raise UserError(f"'{override}' is not a setting.", hint="write section.name=value, as in train.lr=3e-4")
        if not text.strip():
            raise UserError(f"The setting '{path.strip()}' has no value.", hint=f"write {override}VALUE (no spaces)")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):  # a text without quotes, or brackets nested too deep
            value = text.strip()
        raw = merge(raw, nest({path.strip(): value}))
    return current_names(raw)


def nest(flat: Mapping[str, Any]) -> Raw:
    """`{"train.lr": 1}` to `{"train": {"lr": 1}}`."""
    raw: Raw = {}
    for path, value in flat.items():
        *sections, name = path.split(".")
        inner: Raw = {name: value}
        for section in reversed(sections):
            inner = {section: inner}
        raw = merge(raw, inner)
    return raw


def merge(under: Raw, over: Raw) -> Raw:
    """Both, section by section; where they disagree, `over`."""
    merged = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def check(raw: Raw) -> None:
    """Refuses what is wrong already, before a corpus is read; what is still missing will be chosen."""
    try:
        Settings.model_validate(raw)
    except ValidationError as error:
        refuse([e for e in error.errors() if e["type"] != "missing" or "also" in e["loc"]])  # these nobody chooses


def resolve(raw: Raw) -> Settings:
    """Settings of which every one is said; refuses what is wrong, and what is missing."""
    try:
        return Settings.model_validate(raw)
    except ValidationError as error:
        refuse(list(error.errors()))
        raise  # an error that refuse has no words for is a bug of ours
