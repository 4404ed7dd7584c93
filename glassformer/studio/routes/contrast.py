"""Why one token and not another: the difference of two logits, by parts of the model and by ablation of heads."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from glassformer.glass.logit_attribution import head_ablations, logit_difference
from glassformer.studio.context import StudioContext


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.get("/traces/{trace}/contrast")
    def contrast(request: Request, trace: str, step: int, token: int, other: int) -> dict[str, Any]:
        """Return logit(token) − logit(other) at a decoding step, and the shares that add up to it."""
        found = logit_difference(context.result(request, trace).trace, step, token, other)
        return asdict(found) | {"value": found.value}

    @router.get("/traces/{trace}/contrast/ablation")
    def ablation(request: Request, trace: str, step: int, token: int, other: int) -> list[dict[str, Any]]:
        """Return the change of the difference when each head is ablated, for each kind of attention."""
        result = context.result(request, trace)
        with context.model_lock:
            found = head_ablations(result.opened.model, result.trace, step, token, other)
        return [asdict(one) for one in found]

    return router
