"""The studio as a FastAPI application: a page, and the addresses that it asks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from glassformer.errors import UserError
from glassformer.studio.desk import Desk
from glassformer.studio.door import door
from glassformer.studio.routes import EVERY
from glassformer.studio.traces import NoSuchTrace, Traces

STATIC = Path(str(files("glassformer.studio") / "static"))


def studio(runs: Sequence[Path], *, traces: Traces | None = None) -> FastAPI:
    """The studio of these runs."""
    # The pages that FastAPI makes of the addresses load their script from elsewhere, so there are none.
    app = FastAPI(title="Glassformer studio", docs_url=None, redoc_url=None)
    app.middleware("http")(door)
    app.add_exception_handler(UserError, _mistake)
    app.add_exception_handler(NoSuchTrace, _no_such_trace)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _refused)
    desk = Desk(runs, traces)
    for routes in EVERY:
        app.include_router(routes(desk), prefix="/api")

    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=STATIC))
    return app


def _told(status: int, what: str, where: str = "", hint: str = "") -> JSONResponse:
    return JSONResponse({"what": what, "where": where, "fix": hint}, status_code=status)


def _mistake(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, UserError)
    return _told(400, error.message, error.where, error.hint)


def _no_such_trace(request: Request, error: Exception) -> JSONResponse:
    return _told(404, "There is no such trace, or it is no longer kept.", hint="ask for the sentence again")


# By the beginning of pydantic's error type. The page has these sentences in Korean as well.
INVALID = {
    "missing": "a value is missing",
    "int": "a whole number is expected",
    "bool": "true or false is expected",
    "string": "text is expected",
    "value_error": "the text is not valid Unicode",
    "list": "a list is expected",
    "too": "the list has too few or too many entries",
    "dict": "pairs of names and values are expected",
    "json": "the body is not valid JSON",
}


def _unreadable(request: Request, error: Exception) -> JSONResponse:
    """Name the field and what is expected there."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    why = next((says for kind, says in INVALID.items() if first["type"].startswith(kind)), "a value is not valid")
    # The first part of the path says body, query or path; "[key]" is pydantic's mark for a name of a pair.
    fields = [str(part) for part in first["loc"][1:] if part != "[key]"]
    where = ".".join(fields).encode(errors="replace").decode()
    return _told(422, f"This request cannot be read: {why}.", where=where)


def _refused(request: Request, error: Exception) -> JSONResponse:
    """Answer unknown addresses, wrong methods and unreadable bodies in the same form as every other error."""
    assert isinstance(error, HTTPException)
    return _told(error.status_code, f"The studio cannot answer this request: {error.detail}.")
