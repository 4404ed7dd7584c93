"""Comparison of two runs: parameters, scores, and the log-probability of every output token."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from glassformer.studio import serialization
from glassformer.studio.context import StudioContext
from glassformer.studio.training_log import summary


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.get("/numbers")
    def numbers(run: str) -> dict[str, Any]:
        """Return the number of parameters of a run and the results in its log."""
        opened = context.models.load(run)
        weights = sum(parameter.numel() for parameter in opened.model.parameters())
        described = opened.settings.model.describe()
        return {"run": run, "described": described, "weights": weights, **summary(context.models.folder(run).log)}

    @router.get("/traces/{trace}/written")
    def written(request: Request, trace: str) -> list[dict[str, Any]]:
        """Return every token of the output, `<eos>` last, with its log-probability."""
        return serialization.output_log_probabilities(context.result(request, trace))

    return router
