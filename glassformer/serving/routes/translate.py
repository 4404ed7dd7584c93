"""/v1/translate: scores, n-best lists, word alignment, prefix, terms; and the same as a stream of events."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request as HttpRequest
from starlette.responses import StreamingResponse

from glassformer.serving.documents.document import Document
from glassformer.serving.jobs import Hypothesis, Result
from glassformer.serving.languages import AUTO
from glassformer.serving.request_errors import RequestError, as_request_error
from glassformer.serving.routes.libretranslate import describe
from glassformer.serving.routes.schemas import RESPONSES_V1
from glassformer.serving.service import Route, Service
from glassformer.serving.translation import Request, Translation, best_of
from glassformer.web_requests import Text

Terms = dict[Text, Text | list[Text]]


class TranslateRequest(BaseModel):
    """What to translate, and how."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "I am a student.", "source": "en", "target": "fr", "alignment": True, "n_best": 2},
                {"text": "<p>I am a <b>student</b>.</p>", "model": "en-fr", "format": "html"},
            ]
        }
    )

    text: Text | list[Text] = Field(description="text or texts")
    source: Text | None = Field(None, description="language code, or auto (the default with target)")
    target: Text | None = Field(None, description="language code")
    model: Text | None = Field(None, description="name of a model, instead of source and target")
    format: Literal["text", "html"] = "text"
    beam: int | None = Field(None, ge=1, description="beam size; 1 is greedy decoding")
    n_best: int = Field(1, ge=1, description="number of hypotheses per sentence")
    max_length: int | None = Field(None, ge=1, description="maximum number of output tokens per sentence")
    prefix: Text = Field("", description="forced beginning of the translation of one sentence")
    alignment: bool = Field(False, description="return the word alignment: [source word, target word], from 0")
    glossary: Terms = Field(default_factory=dict, description="terms and their translations (one or several)")
    do_not_translate: list[Text] = Field(default_factory=list, description="terms to leave as they are")


class HypothesisJson(BaseModel):
    text: str
    score: float | None = Field(None, description="length-normalized log-probability")
    alignment: list[tuple[int, int]] | None = None


class SentenceJson(HypothesisJson):
    source: str
    alternatives: list[HypothesisJson] = Field(description="the further hypotheses")


class TranslationJson(BaseModel):
    text: str
    source: str | None
    target: str | None
    detected: dict[str, Any] | None = Field(None, description="language and confidence, with source=auto")
    sentences: list[SentenceJson]


class Usage(BaseModel):
    sentences: int
    source_tokens: int
    target_tokens: int


class TranslateResponse(BaseModel):
    model: str | None
    translations: list[TranslationJson]
    usage: Usage


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["Translation"], responses=RESPONSES_V1)

    @router.post("/translate", response_model=TranslateResponse, response_model_exclude_none=True)
    async def translate(request: HttpRequest, given: TranslateRequest) -> TranslateResponse:
        """Translate a text or a list of texts."""
        texts = given.text if isinstance(given.text, list) else [given.text]
        check(service, given, texts)
        request.scope["exchange"].details |= describe(service, texts)
        found = [await route_of(service, given, text) for text in texts]
        translations = await service.translate(texts, found, partial(request_of, given))
        return _response(found, translations, given)

    @router.post("/translate/stream", response_class=StreamingResponse)
    async def stream(request: HttpRequest, given: TranslateRequest) -> StreamingResponse:
        """Translate a text and send the translation of each sentence as a server-sent event when it is ready.

        With beam=1, the events "partial" carry the text of a sentence as it grows. The last event is "done".
        """
        if isinstance(given.text, list):
            raise RequestError(400, "A stream translates one text.", parameter="text", hint="send a string")
        check(service, given, [given.text])
        request.scope["exchange"].details |= describe(service, [given.text])
        route = await route_of(service, given, given.text)
        model_request = request_of(given, route.model or "")
        # A text that is too long is refused here, before the response begins.
        document = (
            Document([given.text])
            if route.model is None
            else await service.translator.parse_aside(given.text, model_request)
        )
        return event_stream(_events(service, document, route, model_request))

    return router


def check(service: Service, given: TranslateRequest, texts: list[str]) -> None:
    """Refuse values beyond the limits."""
    service.check_texts(texts)
    limits = service.limits
    terms = len(given.glossary) + len(given.do_not_translate)
    for name, value, most in (
        ("beam", given.beam or 1, limits.beam),
        ("n_best", given.n_best, limits.beam),
        ("max_length", given.max_length or 1, limits.tokens),
        ("prefix", len(given.prefix), limits.sentence),
        ("glossary", terms, limits.terms),
    ):
        if value > most:
            raise RequestError(400, f"{name} is {value:,}; the limit is {most:,}.", parameter=name)


async def route_of(service: Service, given: TranslateRequest, text: str) -> Route:
    """Return the languages and the model of a text: by model name, or by its languages."""
    if given.target is None:
        info = service.model(given.model, "translate")
        sources = service.languages.sources_of(info.name)
        is_named = given.source is not None and given.source.lower() != AUTO
        if is_named and sources and service.languages.code(given.source or "") not in sources:
            message = f"The model {info.name!r} translates from {', '.join(sources)}, not from {given.source}."
            raise RequestError(400, message, parameter="source", hint="leave it out, or add target")
        return Route(info.source_language or "", info.target_language or "", info.name)
    if given.model is not None:
        raise RequestError(400, "Both model and target are given.", parameter="model", hint="give one of them")
    return await service.route(text, given.source or "auto", given.target)


def request_of(given: TranslateRequest, model: str) -> Request:
    """Return the request for a model. The beam holds all requested hypotheses."""
    return Request(
        model,
        given.format,
        beam=None if given.beam is None else max(given.beam, given.n_best),
        n_best=given.n_best,
        max_length=given.max_length,
        prefix=given.prefix,
        alignment=given.alignment,
        glossary={term: tuple([to] if isinstance(to, str) else to) for term, to in given.glossary.items() if to},
        kept_terms=tuple(given.do_not_translate),
    )


def _response(found: list[Route], translations: list[Translation], given: TranslateRequest) -> TranslateResponse:
    results = [sentence.result for translation in translations for sentence in translation.sentences]
    usage = Usage(
        sentences=len(results),
        source_tokens=sum(result.source_tokens for result in results),
        target_tokens=sum(result.target_tokens for result in results),
    )
    models = {route.model for route in found}
    answers = [
        TranslationJson(
            text=translation.text,
            source=route.source or None,
            target=route.target or None,
            detected=route.detected.to_json() if route.detected else None,
            sentences=[_sentence(one.source, one.result, given.alignment) for one in translation.sentences],
        )
        for route, translation in zip(found, translations, strict=True)
    ]
    return TranslateResponse(model=models.pop() if len(models) == 1 else None, translations=answers, usage=usage)


def _sentence(source: str, result: Result, with_alignment: bool) -> SentenceJson:
    best, *others = [_hypothesis(one, with_alignment) for one in result.hypotheses or [best_of(result)]]
    return SentenceJson(source=source, alternatives=others, **best.model_dump())


def _hypothesis(one: Hypothesis, with_alignment: bool) -> HypothesisJson:
    score = None if math.isnan(one.score) else one.score
    return HypothesisJson(text=one.text, score=score, alignment=list(one.alignment) if with_alignment else None)


async def _events(
    service: Service, document: Document, route: Route, model_request: Request
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    best: list[Hypothesis] = []
    async for number, result in service.translator.stream(document, model_request):
        if isinstance(result, str):
            yield "partial", {"sentence": number, "text": result}
        else:
            sentence = _sentence(document.sources[number].text, result, model_request.alignment)
            yield "sentence", {"sentence": number} | sentence.model_dump(exclude_none=True)
            best.append(best_of(result))
    yield "done", {"text": document.render(best), "model": route.model, "source": route.source, "target": route.target}


def event_stream(events: AsyncIterator[tuple[str, dict[str, Any]]]) -> StreamingResponse:
    """Return server-sent events. An error in the middle of the stream is its last event."""

    async def lines() -> AsyncIterator[str]:
        try:
            async for event, data in events:
                yield server_sent_event(data, event)
        except Exception as error:
            known = as_request_error(error)
            if known is None:
                raise
            yield server_sent_event({"message": known.message, "hint": known.hint}, "error")

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def server_sent_event(data: dict[str, Any], event: str = "") -> str:
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data, ensure_ascii=False)}\n\n"
