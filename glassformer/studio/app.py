"""The studio as a FastAPI application: a page, and the addresses that it asks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

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
    desk = Desk(runs, traces)
    for routes in EVERY:
        app.include_router(routes(desk), prefix="/api")

    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=STATIC))
    return app


def _told(status: int, what: str, where: str = "", fix: str = "") -> JSONResponse:
    return JSONResponse({"what": what, "where": where, "fix": fix}, status_code=status)


def _mistake(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, UserError)
    return _told(400, error.what, error.where, error.fix)


def _no_such_trace(request: Request, error: Exception) -> JSONResponse:
    return _told(404, "There is no such trace, or it is no longer kept.", fix="ask for the sentence again")


def _unreadable(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return _told(422, f"This cannot be read: {first['msg']}.", where=".".join(map(str, first["loc"])))
