"""Recurrent models: the layers of a trace with their states and gates, and the attention of the decoder."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from glassformer.glass.recurrent_layers import recurrent_model
from glassformer.studio.context import StudioContext


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.get("/traces/{trace}/recurrent")
    def recurrent(request: Request, trace: str) -> dict[str, Any]:
        """Return the names of the tensors of every recurrent layer; their values are requested one by one."""
        return asdict(recurrent_model(context.result(request, trace).trace))

    return router
