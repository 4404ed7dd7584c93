"""Parts of the OpenAPI description, for endpoints whose body is not one pydantic model."""

from __future__ import annotations

from typing import Any

ERROR: dict[str, Any] = {
    "description": "What is wrong",
    "content": {"application/json": {"example": {"error": "Invalid request: missing q parameter"}}},
}
ERROR_V1: dict[str, Any] = {
    "description": "What is wrong",
    "content": {
        "application/json": {
            "example": {
                "error": {
                    "message": "There is no model 'en-xx'.",
                    "type": "not_found_error",
                    "param": "model",
                    "code": None,
                    "hint": "models: en-fr",
                }
            }
        }
    },
}
RESPONSES_V1: dict[int | str, dict[str, Any]] = dict.fromkeys((400, 401, 404, 413, 429, 503), ERROR_V1)

TEXTS = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
TRANSLATE_BODY: dict[str, Any] = {
    "q": TEXTS | {"description": "text or texts", "examples": ["I am a student."]},
    "source": {"type": "string", "description": "language code, or auto", "examples": ["en"]},
    "target": {"type": "string", "examples": ["fr"]},
    "format": {"type": "string", "enum": ["text", "html"], "default": "text"},
    "alternatives": {"type": "integer", "minimum": 0, "default": 0},
    "api_key": {"type": "string"},
}
TRANSLATED: dict[str, Any] = {
    "translatedText": "Je suis étudiant.",
    "detectedLanguage": {"confidence": 98.7, "language": "en"},
    "alternatives": ["Je suis un étudiant."],
}
FILE_BODY: dict[str, Any] = {
    "file": {"type": "string", "format": "binary"},
    "source": {"type": "string", "examples": ["en"]},
    "target": {"type": "string", "examples": ["fr"]},
    "api_key": {"type": "string"},
}


def body_schema(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    """Describe a body that is JSON or a form."""
    schema = _object(properties, ["q", "source", "target"] if required is None else required)
    content = {kind: {"schema": schema} for kind in ("application/json", "application/x-www-form-urlencoded")}
    return {"requestBody": {"required": True, "content": content}}


def form_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """Describe a form with a file."""
    schema = _object(properties, ["file", "source", "target"])
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def json_response(example: Any, description: str = "The translation") -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"example": example}}}


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}
