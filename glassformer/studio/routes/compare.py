"""Two runs beside each other: how large each is, how it scored, how sure it was of every token."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from glassformer.studio import payloads
from glassformer.studio.desk import Desk
from glassformer.studio.logs import summary


def routes(desk: Desk) -> APIRouter:
    router = APIRouter()

    @router.get("/numbers")
    def numbers(run: str) -> dict[str, Any]:
        """What is said of a run in numbers: its weights, counted, and what its log has."""
        opened = desk.shelf.open(run)
        weights = sum(parameter.numel() for parameter in opened.model.parameters())
        described = opened.settings.model.describe()
        return {"run": run, "described": described, "weights": weights, **summary(desk.shelf.folder(run).log)}

    @router.get("/traces/{trace}/written")
    def written(request: Request, trace: str) -> list[dict[str, Any]]:
        """Every token of the output that was read, `<eos>` last, with its log-probability."""
        return payloads.sureness(desk.seen(request, trace))

    return router
