"""/v1/models: the models, and loading them again."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest

from glassformer.serving.jobs import ModelInfo
from glassformer.serving.options import is_loopback
from glassformer.serving.request_errors import RequestError
from glassformer.serving.routes.schemas import RESPONSES_V1
from glassformer.serving.service import Service, kind_of

ADDRESSES = {"translate": "/v1/translate", "complete": "/v1/completions", "predict": "/v1/predict"}


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["Models"], responses=RESPONSES_V1)

    @router.get("/models")
    async def models() -> dict[str, Any]:
        """Return the models, in the form of OpenAI's list."""
        return {"object": "list", "data": [_json(service, info) for info in service.pool.models.values()]}

    @router.get("/models/{name}")
    async def model(name: str) -> dict[str, Any]:
        """Return one model."""
        return _json(service, _find(service, name))

    @router.post("/models/{name}/reload")
    async def reload(request: HttpRequest, name: str) -> dict[str, Any]:
        """Load a model again from its folder, while requests are served. It needs a key that is marked as admin.

        Without keys, only this machine may do it.
        """
        key = request.scope["exchange"].key
        is_here = request.client is not None and is_loopback(request.client.host)
        if not (key.admin if key is not None else is_here):
            hint = "create a key with glassformer keys add NAME --admin"
            raise RequestError(403, "This key may not reload models.", hint=hint)
        await service.reload([_find(service, name).name])
        return {"model": name, "reloaded": True}

    return router


def _find(service: Service, name: str) -> ModelInfo:
    if name not in service.pool.models:
        names = ", ".join(service.pool.models)
        raise RequestError(404, f"There is no model {name!r}.", parameter="model", hint=f"models: {names}")
    return service.pool.models[name]


def _json(service: Service, info: ModelInfo) -> dict[str, Any]:
    pairs = [pair for pair, name in service.languages.pairs.items() if name == info.name]
    source, target = pairs[0] if pairs else (info.source_language, info.target_language)
    return {
        "id": info.name,
        "object": "model",
        "created": service.started_at,
        "owned_by": "glassformer",
        "task": info.task,
        "address": ADDRESSES[kind_of(info.task)],
        "source": source,
        "target": target,
        "max_source": info.max_source,
        "limits": info.limits,
    }
