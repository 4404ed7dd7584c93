"""Endpoints for operators: /health, /ready, /metrics, /spec."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from glassformer.serving.metrics import CONTENT_TYPE
from glassformer.serving.service import Service


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Operations"])

    @router.get("/health")
    async def health() -> dict[str, str]:
        """Report that the process is running."""
        return {"status": "ok"}

    @router.get("/ready", responses={503: {"description": "Models are loading, or the process is shutting down"}})
    async def ready() -> JSONResponse:
        """Report whether requests can be sent here: models are loaded, and the process is not shutting down."""
        return JSONResponse({"ready": service.is_ready}, 200 if service.is_ready else 503)

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Return metrics in the format of Prometheus."""
        return Response(service.metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    @router.get("/spec")
    async def spec(request: HttpRequest) -> dict[str, Any]:
        """Return this description (OpenAPI)."""
        description: dict[str, Any] = request.app.openapi()
        return description

    return router
