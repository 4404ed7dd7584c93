"""The studio as a FastAPI application: the page and the addresses it requests."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from glassformer.errors import Message, UserError
from glassformer.studio.context import StudioContext
from glassformer.studio.routes import ALL_ROUTES
from glassformer.studio.security import security_middleware
from glassformer.studio.serialization import error_response
from glassformer.studio.trace_store import TraceNotFound, TraceStore

STATIC = Path(str(files("glassformer.studio") / "static"))


def studio(runs: Sequence[Path], *, traces: TraceStore | None = None) -> FastAPI:
    """Return the studio for these runs."""
    # FastAPI's generated API pages load scripts from another host, so they are disabled.
    app = FastAPI(title="Glassformer studio", docs_url=None, redoc_url=None)
    app.middleware("http")(security_middleware)
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(TraceNotFound, _trace_not_found)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    context = StudioContext(runs, traces)
    for routes in ALL_ROUTES:
        app.include_router(routes(context), prefix="/api")

    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=STATIC))
    return app


def _user_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, UserError)
    return error_response(400, error.message, where=error.where, hint=error.hint)


def _trace_not_found(request: Request, error: Exception) -> JSONResponse:
    return error_response(404, "The trace does not exist or has expired.", hint="submit the sentence again")


# What is wrong, by the beginning of pydantic's error type.
INVALID = {
    "missing": "a value is missing",
    "int": "an integer is expected",
    "bool": "true or false is expected",
    "string": "text is expected",
    "value_error": "the text is not valid Unicode",
    "list": "a list is expected",
    "too": "the list has too few or too many entries",
    "dict": "an object is expected",
    "json": "the body is not valid JSON",
}


def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    """Name the field and what is expected."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    reason = next((text for kind, text in INVALID.items() if first["type"].startswith(kind)), "a value is not valid")
    # The first part of the path says body, query or path; "[key]" is how pydantic marks a key of an object.
    fields = [str(part) for part in first["loc"][1:] if part != "[key]"]
    where = ".".join(fields).encode(errors="replace").decode()
    return error_response(422, Message("Invalid request: {why}.", why=Message(reason)), where=where)


def _http_error(request: Request, error: Exception) -> JSONResponse:
    """Report unknown addresses, wrong methods and unreadable bodies in the same form as every other error."""
    assert isinstance(error, HTTPException)
    message = Message("The studio cannot handle this request: {why}.", why=str(error.detail))
    return error_response(error.status_code, message)
