"""Runs, traces and the values of their tensors."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from glassformer.errors import UserError
from glassformer.studio import serialization
from glassformer.studio.context import StudioContext
from glassformer.studio.entries import describe_entry
from glassformer.studio.routes.fields import Text
from glassformer.studio.tracing import TraceRequest, ask_about_image


class TraceBody(BaseModel):
    """The input of a trace; see `TraceRequest`. `forced` maps decoding steps to token ids."""

    run: Text
    text: Text = ""
    target: Text | None = None
    free: bool = False
    forced: dict[int, int] = Field(default_factory=dict)
    question: Text = ""


async def _body(request: Request) -> bytes:
    """Read the raw body. Reading needs the event loop; the model must not run there, so this is a dependency."""
    return await request.body()


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.get("/runs")
    def runs() -> list[dict[str, Any]]:
        return context.models.list_runs()

    @router.post("/traces")
    def trace(request: Request, question: TraceBody) -> dict[str, Any]:
        return context.trace(request, TraceRequest(**question.model_dump()))

    @router.post("/images")
    def image(request: Request, run: str, picture: Annotated[bytes, Depends(_body)]) -> dict[str, Any]:
        opened = context.models.load(run)
        with context.model_lock:
            result = ask_about_image(opened, picture)
        return context.store(request, result)

    @router.get("/traces/{trace}/weights")
    def weights(request: Request, trace: str, kind: str) -> Response:
        return serialization.attention_bytes(context.result(request, trace).trace, kind)

    @router.get("/traces/{trace}/values")
    def values(request: Request, trace: str, name: str, at: str = "") -> Response:
        return serialization.values(context.result(request, trace).trace, name, _indices(at))

    @router.get("/traces/{trace}/recipe")
    def recipe(request: Request, trace: str, name: str) -> dict[str, Any]:
        return serialization.computation(context.result(request, trace), name)

    @router.get("/traces/{trace}/cell")
    def cell(request: Request, trace: str, name: str, at: str) -> dict[str, Any]:
        return describe_entry(context.result(request, trace), name, _indices(at))

    return router


def _indices(at: str) -> tuple[int, ...]:
    try:
        return tuple(int(i) for i in at.split(",")) if at else ()
    except ValueError:
        raise UserError("These are not indices.", where=at, hint="give numbers separated by commas: 0,3") from None
