"""/v1/completions for language models, compatible with OpenAI's clients."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse

from glassformer.serving.jobs import Job, Result
from glassformer.serving.request_errors import RequestError, as_request_error
from glassformer.serving.routes.libretranslate import describe
from glassformer.serving.routes.schemas import RESPONSES_V1
from glassformer.serving.routes.translate import server_sent_event
from glassformer.serving.service import Service
from glassformer.serving.translation import best_of
from glassformer.web_requests import Text

MAX_CHOICES = 16
MAX_STOPS = 4  # as OpenAI allows


class CompletionRequest(BaseModel):
    """The fields of OpenAI's completions; unknown ones are ignored."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={"examples": [{"model": "shakespeare", "prompt": "ROMEO:", "max_tokens": 50, "seed": 1}]},
    )

    model: Text | None = None
    prompt: Text | list[Text] = ""
    max_tokens: int | None = Field(16, ge=1)
    temperature: float | None = Field(1.0, ge=0, le=10, description="0 is greedy decoding")
    top_p: float | None = Field(1.0, gt=0, le=1)
    top_k: int | None = Field(None, ge=1, description="sample from the k most probable tokens")
    n: int | None = Field(1, ge=1, le=MAX_CHOICES)
    seed: int | None = Field(None, ge=0, lt=2**31)
    stop: Text | list[Text] | None = None
    echo: bool | None = False
    stream: bool | None = False
    logprobs: int | None = None


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["Language models"], responses=RESPONSES_V1)

    @router.post("/completions", response_class=JSONResponse)
    async def complete(request: HttpRequest, given: CompletionRequest) -> Response:
        """Continue a prompt."""
        info = service.model(given.model, "complete")
        prompts = [given.prompt] if isinstance(given.prompt, str) else given.prompt
        _check(service, given, prompts)
        request.scope["exchange"].details |= describe(service, prompts)
        jobs = [job for prompt in prompts for job in _jobs(given, info.name, prompt)]
        head = {"id": f"cmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": info.name}
        head["object"] = "text_completion"
        if given.stream:
            return StreamingResponse(
                _stream(service, given, jobs, head), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
            )
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(service.pool.submit(job)) for job in jobs]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return JSONResponse(head | _answer(given, jobs, [task.result() for task in tasks]))

    return router


def _check(service: Service, given: CompletionRequest, prompts: list[str]) -> None:
    service.check_texts(prompts)
    if not prompts:
        raise RequestError(400, "There is no prompt.", parameter="prompt")
    if (given.max_tokens or 1) > service.limits.tokens:
        message = f"max_tokens is {given.max_tokens:,}; the limit is {service.limits.tokens:,}."
        raise RequestError(400, message, parameter="max_tokens")
    if given.logprobs is not None:
        raise RequestError(400, "Log-probabilities are not available.", parameter="logprobs", hint="leave it out")
    if len(_stops(given)) > MAX_STOPS:
        raise RequestError(400, f"There are more than {MAX_STOPS} stop sequences.", parameter="stop")


def _jobs(given: CompletionRequest, model: str, prompt: str) -> list[Job]:
    """Return one job per choice. Without a seed, every request gets another one."""
    seed = secrets.randbelow(2**31) if given.seed is None else given.seed
    temperature = 1.0 if given.temperature is None else given.temperature
    return [
        Job(
            model=model,
            text=prompt,
            max_length=given.max_tokens or 16,
            temperature=temperature,
            top_k=given.top_k,
            top_p=given.top_p,
            seed=seed + number,
        )
        for number in range(given.n or 1)
    ]


def _stops(given: CompletionRequest) -> list[str]:
    stops = [given.stop] if isinstance(given.stop, str) else given.stop or []
    return [stop for stop in stops if stop]


def _answer(given: CompletionRequest, jobs: list[Job], results: list[Result]) -> dict[str, Any]:
    choices = []
    for index, (job, result) in enumerate(zip(jobs, results, strict=True)):
        text, stopped = cut(best_of(result).text, _stops(given))
        stopped = stopped or result.target_tokens < (job.max_length or 0)
        choices.append(_choice(index, (job.text if given.echo else "") + text, "stop" if stopped else "length"))
    prompt = sum(result.source_tokens for result in results[:: given.n or 1])
    written = sum(result.target_tokens for result in results)
    usage = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    return {"choices": choices, "usage": usage}


def _choice(index: int, text: str, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}


def cut(text: str, stops: list[str]) -> tuple[str, bool]:
    """Return the text before the first stop sequence, and whether there was one."""
    ends = [text.find(stop) for stop in stops if stop in text]
    return (text[: min(ends)], True) if ends else (text, False)


async def _stream(
    service: Service, given: CompletionRequest, jobs: list[Job], head: dict[str, Any]
) -> AsyncIterator[str]:
    """Yield the events of all choices, one choice after the other."""
    try:
        for index, job in enumerate(jobs):
            if given.echo:
                yield server_sent_event(head | {"choices": [_choice(index, job.text, None)]})
            reason = "length"
            async for piece, stopped in until_stop(service.pool.stream(job), _stops(given)):
                reason = "stop" if stopped else reason
                if piece:
                    yield server_sent_event(head | {"choices": [_choice(index, piece, None)]})
            yield server_sent_event(head | {"choices": [_choice(index, "", reason)]})
    except Exception as error:
        known = as_request_error(error)
        if known is None:
            raise
        yield server_sent_event({"error": {"message": known.message, "type": "server_error"}})
    yield "data: [DONE]\n\n"


async def until_stop(texts: AsyncIterator[str], stops: list[str]) -> AsyncIterator[tuple[str, bool]]:
    """Yield what is added to a growing text, up to a stop sequence, and whether one was found.

    What may be the beginning of a stop sequence is held back until that is decided.
    """
    sent, text = 0, ""
    longest = max(map(len, stops), default=0)
    async for text in texts:
        before, stopped = cut(text, stops)
        if stopped:
            yield before[sent:], True
            return
        sizes = [size for size in range(1, longest) if any(stop.startswith(text[-size:]) for stop in stops)]
        end = max(sent, len(text) - max(sizes, default=0))
        yield text[sent:end], False
        sent = end
    yield text[sent:], False
