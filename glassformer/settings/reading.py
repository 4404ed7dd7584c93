"""Read settings from TOML files and `section.name=value` arguments, merge and validate them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from glassformer.errors import UserError
from glassformer.files import not_found
from glassformer.limits import SETTINGS_FILE, read_bytes
from glassformer.settings.aliases import current_names
from glassformer.settings.messages import raise_for_errors
from glassformer.settings.run import Settings

Raw = dict[str, Any]
PATHS = ("train", "valid", "test", "cache")  # settings of `data` that are paths
PLACEHOLDERS = {"tokenizer": 300, "train": 1}  # a value that is valid for every setting of the section that is chosen


def read_settings(path: Path) -> Raw:
    """Read and check the settings of a TOML file. Data paths in it are relative to the file."""
    try:
        raw = current_names(read_toml(path))
    except FileNotFoundError:
        raise not_found(path) from None
    except OSError as error:
        message = f"The settings cannot be read: {error.strerror}."
        raise UserError(message, where=str(path), hint="give the path of a readable TOML file") from None
    except ValueError as error:
        raise UserError(f"This is not TOML: {error}.", where=str(path), hint="correct that line") from None
    try:
        check(raw)
    except UserError as error:
        raise UserError(error.message, where=f"{path}: {error.where}", hint=error.hint) from None
    data = raw.get("data", {})
    if isinstance(data, dict):
        for split in PATHS:
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


def with_absolute_paths(raw: Raw) -> Raw:
    """Return the settings with absolute paths of the data, so that they hold in any folder."""

    def absolute(path: str | list[str]) -> Any:
        return [*map(absolute, path)] if isinstance(path, list) else str(Path(path).expanduser().absolute())

    def inside(section: Raw) -> Raw:
        return section | {name: absolute(section[name]) for name in PATHS if section.get(name)}

    if "data" not in raw:
        return raw
    data = inside(raw["data"])
    if data.get("also"):
        data["also"] = [inside(other) for other in data["also"]]
    return raw | {"data": data}


def parse_overrides(overrides: Iterable[str]) -> Raw:
    """Parse `["train.lr=3e-4", …]` to nested settings. Values are TOML; a bare word is a string."""
    raw: Raw = {}
    for override in overrides:
        path, equals, text = override.partition("=")
        if not equals or not path.strip():
            raise UserError(f"'{override}' is not a setting.", hint="write section.name=value, as in train.lr=3e-4")
        if not text.strip():
            raise UserError(f"The setting '{path.strip()}' has no value.", hint=f"write {override}VALUE (no spaces)")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):  # a string without quotes, or brackets nested too deep
            value = text.strip()
        raw = merge(raw, nest({path.strip(): value}))
    return current_names(raw)


def nest(flat: Mapping[str, Any]) -> Raw:
    """Convert `{"train.lr": 1}` to `{"train": {"lr": 1}}`."""
    raw: Raw = {}
    for path, value in flat.items():
        *sections, name = path.split(".")
        inner: Raw = {name: value}
        for section in reversed(sections):
            inner = {section: inner}
        raw = merge(raw, inner)
    return raw


def merge(under: Raw, over: Raw) -> Raw:
    """Merge two settings, section by section; values of `over` win."""
    merged = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def check(raw: Raw) -> None:
    """Raise a `UserError` for invalid settings before any data is read; missing ones will be chosen."""
    missing = _check(raw)
    # pydantic checks how the settings of a section fit together only if none is missing.
    filled = nest({f"{section}.{name}": PLACEHOLDERS[section] for section, name in missing if section in PLACEHOLDERS})
    if filled:
        _check(merge(filled, raw))
    _check_lengths(raw.get("decode", {}))


def _check_lengths(decode: Raw) -> None:
    """Refuse lengths that contradict each other. Only here, so that old run folders with such settings still load."""
    least, most = decode.get("min_length") or 0, decode.get("max_length")
    if most is not None and least > most:
        hint = f"min_length = {least} must not be larger than max_length = {most}"
        raise UserError("A setting is invalid.", where="decode", hint=hint)


def _check(raw: Raw) -> list[tuple[str, str]]:
    """Raise a `UserError` for invalid settings; return section and name of those that are missing."""
    try:
        Settings.model_validate(raw)
    except ValidationError as error:
        # Settings inside data.also are not chosen: they must be given.
        raise_for_errors([e for e in error.errors() if e["type"] != "missing" or "also" in e["loc"]])
        return [(str(e["loc"][0]), str(e["loc"][-1])) for e in error.errors() if len(e["loc"]) == 2]
    return []


def resolve(raw: Raw) -> Settings:
    """Validate complete settings; raise a `UserError` for invalid and missing ones."""
    try:
        return Settings.model_validate(raw)
    except ValidationError as error:
        raise_for_errors(list(error.errors()))
        raise
