"""Parameters of LibreTranslate's endpoints: from a JSON body, a form or the query string. Unknown ones are ignored."""

from __future__ import annotations

import json
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from glassformer.serving.request_errors import RequestError
from glassformer.web_requests import check_encodable


def is_json(content_type: str) -> bool:
    kind = content_type.split(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


async def read_parameters(request: Request) -> dict[str, Any]:
    """Return the parameters of a request; a value of the body has precedence over one of the query string."""
    values: dict[str, Any] = _values(request.query_params.multi_items())
    content_type = request.headers.get("content-type", "")
    if is_json(content_type):
        return values | _json_object(await request.body())
    if content_type.startswith(("application/x-www-form-urlencoded", "multipart/form-data")):
        values |= _values((await _form(request)).multi_items())
    return values


async def _form(request: Request) -> FormData:
    try:
        return await request.form(max_files=1, max_fields=100, max_part_size=2**22)
    except Exception as error:
        # Whatever the parser of forms finds wrong (it raises errors of several kinds) is the client's mistake.
        raise RequestError(400, f"Invalid request: the form cannot be read ({type(error).__name__})") from None


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, "Invalid request: the body is not valid JSON") from None
    if not isinstance(found, dict):
        raise RequestError(400, "Invalid JSON format", hint="send a JSON object")
    return found


def _values(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by name; a name that is given several times has a list of them."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def text_of(parameters: dict[str, Any], name: str) -> str:
    """Return a parameter that is required."""
    value = parameters.get(name)
    if not value:
        raise RequestError(400, f"Invalid request: missing {name} parameter", parameter=name)
    if not isinstance(value, str):
        raise RequestError(400, f"Invalid request: {name} parameter is not a string", parameter=name)
    return encodable(value, name)


def texts_of(parameters: dict[str, Any], name: str) -> str | list[str]:
    """Return a required parameter that is a text or a list of texts."""
    value = parameters.get(name)
    if not isinstance(value, list) or not value:
        return text_of(parameters, name)
    if not all(isinstance(text, str) for text in value):
        raise RequestError(400, f"Invalid request: {name} parameter is not a list of strings", parameter=name)
    return [encodable(text, name) for text in value]


def number_of(parameters: dict[str, Any], name: str, default: int) -> int:
    """Return a parameter that is a whole number, 0 or more."""
    value = parameters.get(name)
    if value is None or value == "":
        return default
    try:
        return max(0, int(value))
    except (ValueError, TypeError, OverflowError):
        raise RequestError(400, f"Invalid request: {name} parameter is not a number", parameter=name) from None


def file_of(parameters: dict[str, Any], name: str) -> UploadFile:
    file = parameters.get(name)
    if not isinstance(file, UploadFile):
        raise RequestError(400, f"Invalid request: missing {name} parameter", parameter=name)
    return file


def encodable(text: str, name: str) -> str:
    try:
        return check_encodable(text)
    except ValueError:
        raise RequestError(400, f"Invalid request: {name} parameter is not valid Unicode", parameter=name) from None
