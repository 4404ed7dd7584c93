"""LibreTranslate's endpoints, so that its clients work unchanged."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest

from glassformer.serving.parameters import number_of, read_parameters, text_of, texts_of
from glassformer.serving.request_errors import RequestError
from glassformer.serving.routes.schemas import ERROR, TRANSLATE_BODY, TRANSLATED, body_schema, json_response
from glassformer.serving.service import Route, Service
from glassformer.serving.translation import Request, Translation
from glassformer.text.languages import language_name

TEXT_FORMATS = ("text", "html")
FILES = [".txt", ".html", ".htm", ".srt"]
RESPONSES: dict[int | str, dict[str, Any]] = dict.fromkeys((400, 403, 413, 429, 503), ERROR)


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["LibreTranslate"], responses=RESPONSES)

    @router.post("/translate", openapi_extra=body_schema(TRANSLATE_BODY), responses={200: json_response(TRANSLATED)})
    async def translate(request: HttpRequest) -> dict[str, Any]:
        """Translate a text or a list of texts, given as JSON, as a form or in the query string."""
        given = await read_parameters(request)
        q, source, target = texts_of(given, "q"), text_of(given, "source"), text_of(given, "target")
        alternatives, kind = number_of(given, "alternatives", 0), given.get("format") or "text"
        if kind not in TEXT_FORMATS:
            raise RequestError(400, f"{str(kind)[:100]} format is not supported", parameter="format")
        if alternatives >= service.limits.beam:
            most = service.limits.beam - 1
            raise RequestError(400, f"Invalid request: alternatives parameter must be <= {most}")
        texts = q if isinstance(q, list) else [q]
        service.check_texts(texts)
        request.scope["exchange"].details |= describe(service, texts)
        found = await translate_texts(service, texts, source, target, kind, alternatives)
        answer: dict[str, Any] = {"translatedText": [one.text for _, one in found]}
        if source.lower() == "auto":
            answer["detectedLanguage"] = [route.detected.to_json() for route, _ in found if route.detected]
        if alternatives:
            answer["alternatives"] = [one.alternatives[1:] for _, one in found]
        return answer if isinstance(q, list) else {name: values[0] for name, values in answer.items()}

    @router.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        """Return the languages: code, name, and the codes that they are translated into."""
        return service.languages.listing()

    @router.post("/detect", openapi_extra=body_schema({"q": {"type": "string", "examples": ["Bonjour !"]}}, ["q"]))
    async def detect(request: HttpRequest) -> list[dict[str, Any]]:
        """Identify the language of a text, among the languages of the service."""
        q = texts_of(await read_parameters(request), "q")
        texts = [q] if isinstance(q, str) else q
        service.check_texts(texts)
        return [one.to_json() for one in await service.detector.rank(" ".join(texts))]

    @router.get("/frontend/settings")
    async def frontend_settings() -> dict[str, Any]:
        """Return the limits and options that a page needs."""
        return settings_json(service)

    @router.post("/suggest")
    async def suggest() -> dict[str, Any]:
        """Refuse suggestions: the service does not collect them."""
        raise RequestError(403, "Suggestions are disabled on this server.")

    return router


async def translate_texts(
    service: Service, texts: list[str], source: str, target: str, kind: str, alternatives: int = 0
) -> list[tuple[Route, Translation]]:
    """Return the languages and the translation of each text."""
    found = [await service.route(text, source, target) for text in texts]
    request_of = partial(Request, format=kind, n_best=alternatives + 1)
    return list(zip(found, await service.translate(texts, found, request_of), strict=True))


def settings_json(service: Service) -> dict[str, Any]:
    (source, target) = next(iter(service.languages.pairs), ("", ""))
    keys = service.options.keys is not None
    return {
        "charLimit": service.limits.characters,
        "frontendTimeout": 500,
        "apiKeys": keys,
        "keyRequired": keys,
        "suggestions": False,
        "filesTranslation": True,
        "supportedFilesFormat": FILES,
        "language": {
            "source": {"code": source, "name": language_name(source)},
            "target": {"code": target, "name": language_name(target)},
        },
    }


def describe(service: Service, texts: list[str]) -> dict[str, object]:
    """Return what is logged of texts: their number and size; the texts themselves only if the operator asked for it."""
    counts: dict[str, object] = {"texts": len(texts), "characters": sum(map(len, texts))}
    return counts | ({"text": texts} if service.options.log_text else {})
