"""The service as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from glassformer.serving.gate import Gate
from glassformer.serving.options import ServeOptions
from glassformer.serving.parameters import is_json
from glassformer.serving.request_errors import (
    KNOWN_ERRORS,
    RequestError,
    as_request_error,
    error_response,
    internal_error,
)
from glassformer.serving.routes import ALL_ROUTES
from glassformer.serving.service import Service
from glassformer.serving.translation import PoolInterface

STATIC = Path(str(files("glassformer.serving") / "static"))
DESCRIPTION = (
    "Translation, completion and prediction with trained runs. The endpoints of LibreTranslate answer errors with "
    '{"error": "…"}, those under /v1 with {"error": {"message": …, "param": …, "hint": …}}. If the service has API '
    "keys, send the header Authorization: Bearer KEY; the endpoints of LibreTranslate also take the parameter api_key."
)


class Application(Gate):
    """The gate and the routes behind it, which share the state `service`."""

    def __init__(self, service: Service) -> None:
        super().__init__(_routes(service), options=service.options, metrics=service.metrics)
        self.service = service


def application(pool: PoolInterface, options: ServeOptions) -> Application:
    """Return the service of a pool. The pool is started and stopped with the application."""
    return Application(Service(pool, options))


def _routes(service: Service) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if not service.is_ready:  # a test client starts no `Server`
            await service.start()
        try:
            yield
        finally:
            await service.stop()

    # FastAPI's pages for the description load scripts from another host; /docs is a page of our own.
    app = FastAPI(
        title="Glassformer",
        description=DESCRIPTION,
        version=version("glassformer"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    for error in (RequestValidationError, HTTPException, *KNOWN_ERRORS, Exception):
        app.add_exception_handler(error, _handle)
    for routes in ALL_ROUTES:
        app.include_router(routes(service))
    for path, name in (("/", "index.html"), ("/docs", "docs.html")):
        app.add_api_route(path, _page(name), include_in_schema=False, response_class=FileResponse)
    app.mount("/static", StaticFiles(directory=STATIC))
    return app


def _page(name: str):  # type: ignore[no-untyped-def]
    async def page() -> FileResponse:
        return FileResponse(STATIC / name)

    return page


def _invalid(request: Request, wrong: dict[str, Any]) -> RequestError:
    """Return the error for a value that is missing or of a wrong type."""
    if wrong["loc"] == ("body",) and not is_json(request.headers.get("content-type", "")):
        hint = "send the header Content-Type: application/json"
        return RequestError(400, "Invalid request: the body is not marked as JSON.", hint=hint)
    # The first part of the path says body, query or path. In brackets are the types of a union.
    parts = [str(part) for part in wrong["loc"][1:] if "[" not in str(part)]
    field = ".".join(parts).encode(errors="replace").decode()
    return RequestError(400, f"Invalid request: {wrong['msg']}.", parameter=field)


async def _handle(request: Request, error: Exception) -> JSONResponse:
    """Write every error in the format of its endpoint, never in FastAPI's."""
    if isinstance(error, RequestValidationError):
        found = _invalid(request, error.errors()[0])
    elif isinstance(error, HTTPException):
        found = RequestError(error.status_code, f"{error.detail}.")
    else:
        found = as_request_error(error) or internal_error(request.scope["exchange"].id)  # the gate logs it
    return error_response(found, request.url.path)
