"""The residual stream: lengths on the way up, and what the output layer would say after each layer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from glassformer.glass.residual_stream import lens_next_tokens, logit_lens, stream_tensors
from glassformer.studio.desk import Desk


def routes(desk: Desk) -> APIRouter:
    router = APIRouter()

    @router.get("/traces/{trace}/stream")
    def stream(request: Request, trace: str, side: str) -> list[dict[str, Any]]:
        """Every place of the stream, with the length of each token's vector there."""
        seen = desk.seen(request, trace)
        return [asdict(place) for place in stream_tensors(seen.trace, side)]

    @router.get("/traces/{trace}/lens")
    def said(request: Request, trace: str) -> list[dict[str, Any]]:
        """What the output layer would say after each decoder layer, for every token that was read."""
        seen = desk.seen(request, trace)
        with desk.working:
            return [asdict(one) for one in logit_lens(seen.opened.model, seen.trace)]

    @router.get("/traces/{trace}/lens/choices")
    def choices(request: Request, trace: str, name: str, row: int) -> list[dict[str, Any]]:
        """The likeliest tokens at one place and row of it."""
        seen = desk.seen(request, trace)
        with desk.working:
            return [asdict(choice) for choice in lens_next_tokens(seen.opened.model, seen.trace, name, row)]

    return router
