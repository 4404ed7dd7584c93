"""Error messages for invalid settings: the path, what is expected, and the most similar valid name."""

from __future__ import annotations

import difflib
from typing import Any

from glassformer.errors import UserError
from glassformer.settings.models import MODELS, family_of
from glassformer.settings.run import setting_names
from glassformer.settings.sections import AlsoSettings

EXPECTED = {  # by the type of the pydantic error
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "bool_type": "should be true or false",
    "list_type": "should be a list",
    "model_type": "is a section: set one of its settings, such as model.layers=2 or train.steps=1000",
}
EXAMPLES = {"data": '["train.en", "train.de"]', "model": '["no_scaling"]'}  # lists, by section


def raise_for_errors(errors: list[Any]) -> None:
    """Raise one `UserError` for all validation errors of pydantic; do nothing if there are none."""
    if not errors:
        return
    messages = [_describe(error) for error in errors]
    message = "A setting is invalid." if len(messages) == 1 else f"{len(messages)} settings are invalid."
    where = "; ".join(where for where, _ in messages)
    raise UserError(message, where=where, hint="; ".join(dict.fromkeys(hint for _, hint in messages)))


def _describe(error: Any) -> tuple[str, str]:
    """Return the path of an error and a hint."""
    place, family = [str(part) for part in error["loc"]], None
    if place[0] == "model" and place[1:] and place[1] in MODELS:  # pydantic inserts the family there
        family = place.pop(1)
    path = ".".join(place)
    if error["type"] == "extra_forbidden":
        return f"there is no setting '{path}'", _nearest(path, family)
    if error["type"] == "missing":
        return f"'{path}' is missing", f"set {path}=…"
    if error["type"] == "union_tag_invalid":
        given = family_of(error["input"])
        close = difflib.get_close_matches(given, MODELS, n=1)
        hint = (
            f"did you mean '{close[0]}'?" if close else f"model.family should be one of {', '.join(map(repr, MODELS))}"
        )
        return f"{path}.family = {given!r}", hint
    if error["type"] == "value_error":
        return path, error["msg"].removeprefix("Value error, ")
    if error["type"] == "list_type" and isinstance(error["input"], str) and error["input"].startswith("["):
        items = ", ".join(f'"{item.strip()}"' for item in error["input"].strip("[]").split(","))
        return f"{path} = {error['input']}", f"the shell removed the quotes of the list: write '{path}=[{items}]'"
    needed = EXPECTED.get(error["type"]) or error["msg"].removeprefix("Input ")
    example = EXAMPLES.get(place[0]) if error["type"] == "list_type" else None
    return f"{path} = {error['input']!r}", f"{path} {needed}" + (f", such as {example}" if example else "")


def _nearest(path: str, family: str | None = None) -> str:
    """Return a hint for an unknown path: the family that has it, a similar name, or all names of the section."""
    inside, _, name = path.rpartition(".")
    known = list(setting_names(family))
    if ".also." in path:
        known = [f"{inside}.{field}" for field in AlsoSettings.model_fields]
    if family and (others := [other for other in MODELS if path in setting_names(other) and other != family]):
        own = ", ".join(k.removeprefix("model.") for k in known if k.startswith("model."))
        return f"this setting is for model.family={others[0]}; {family} has {own}"
    same_name = [k for k in known if k.rpartition(".")[2] == name]
    close = same_name or difflib.get_close_matches(path, known, n=1, cutoff=0.6)
    if not close:
        ends = {k.rpartition(".")[2]: k for k in known}
        close = [ends[end] for end in difflib.get_close_matches(name, ends, n=1)]
    if close:
        return f"did you mean '{close[0]}'?"
    section = path.partition(".")[0]
    return "available: " + ", ".join([k for k in known if k.startswith(section + ".")] or known)
