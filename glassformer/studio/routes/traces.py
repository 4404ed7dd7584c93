"""Runs, traces and the values of their tensors."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from glassformer.errors import UserError
from glassformer.studio import serialization
from glassformer.studio.context import StudioContext
from glassformer.studio.entries import describe_entry
from glassformer.studio.routes.fields import Text
from glassformer.studio.tracing import TraceRequest

MAX_PROBABLE = 10


class TraceBody(BaseModel):
    """The input of a trace; see `TraceRequest`. `forced` maps decoding steps to token ids."""

    run: Text
    text: Text = ""
    target: Text | None = None
    free: bool = False
    forced: dict[int, int] = Field(default_factory=dict)
    question: Text = ""


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.get("/runs")
    def runs() -> list[dict[str, Any]]:
        return context.models.list_runs()

    @router.post("/traces")
    def trace(request: Request, question: TraceBody) -> dict[str, Any]:
        return context.trace(request, TraceRequest(**question.model_dump()))

    @router.get("/traces/{trace}/weights")
    def weights(request: Request, trace: str, kind: str) -> Response:
        return serialization.attention_bytes(context.result(request, trace).trace, kind)

    @router.get("/traces/{trace}/values")
    def values(request: Request, trace: str, name: str, at: str = "") -> Response:
        return serialization.values(context.result(request, trace).trace, name, _indices(at))

    @router.get("/traces/{trace}/recipe")
    def recipe(request: Request, trace: str, name: str) -> dict[str, Any]:
        return serialization.computation(context.result(request, trace), name)

    @router.get("/traces/{trace}/weight")
    def weight(request: Request, trace: str, name: str, role: str) -> Response:
        return serialization.weight_values(context.result(request, trace).trace, name, role)

    @router.get("/traces/{trace}/probable")
    def probable(request: Request, trace: str, name: str, most: int = 3) -> dict[str, Any]:
        """Return the most probable columns of the logits or probabilities."""
        found = context.result(request, trace).trace
        return serialization.probable_columns(found, name, max(1, min(most, MAX_PROBABLE)))

    @router.get("/traces/{trace}/cell")
    def cell(request: Request, trace: str, name: str, at: str) -> dict[str, Any]:
        return describe_entry(context.result(request, trace), name, _indices(at))

    return router


def _indices(at: str) -> tuple[int, ...]:
    try:
        return tuple(int(i) for i in at.split(",")) if at else ()
    except ValueError:
        raise UserError("These are not indices.", where=at, hint="give numbers separated by commas: 0,3") from None
