"""The residual stream: vector norms per layer, and the logit lens."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from glassformer.glass.residual_stream import lens_next_tokens, logit_lens, stream_tensors
from glassformer.studio.context import StudioContext


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.get("/traces/{trace}/stream")
    def stream(request: Request, trace: str, side: str) -> list[dict[str, Any]]:
        """Return every point of the residual stream with the norm of each token's vector."""
        result = context.result(request, trace)
        return [asdict(place) for place in stream_tensors(result.trace, side)]

    @router.get("/traces/{trace}/lens")
    def lens(request: Request, trace: str) -> list[dict[str, Any]]:
        """Return the prediction of the output layer applied after each decoder layer, for every input token."""
        result = context.result(request, trace)
        with context.model_lock:
            return [asdict(one) for one in logit_lens(result.opened.model, result.trace)]

    @router.get("/traces/{trace}/lens/choices")
    def choices(request: Request, trace: str, name: str, row: int) -> list[dict[str, Any]]:
        """Return the most probable tokens at one point and row of the stream."""
        result = context.result(request, trace)
        with context.model_lock:
            return [asdict(choice) for choice in lens_next_tokens(result.opened.model, result.trace, name, row)]

    return router
