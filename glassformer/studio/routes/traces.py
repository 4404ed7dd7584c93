"""Runs, traces, and the numbers in them: what every view asks for."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from glassformer.errors import UserError
from glassformer.studio import payloads
from glassformer.studio.asking import Asked, ask_about_image
from glassformer.studio.cells import cell_of
from glassformer.studio.desk import Desk
from glassformer.studio.routes.fields import Text


class Question(BaseModel):
    """A sentence and how to read it. `forced`: tokens by the number of the step in which they are written."""

    run: Text
    text: Text = ""
    target: Text | None = None
    free: bool = False
    forced: dict[int, int] = Field(default_factory=dict)
    question: Text = ""


async def _body(request: Request) -> bytes:
    """Read the raw body. Reading needs the event loop; the model must not run there, so this is a dependency."""
    return await request.body()


def routes(desk: Desk) -> APIRouter:
    router = APIRouter()

    @router.get("/runs")
    def runs() -> list[dict[str, str]]:
        return desk.shelf.described()

    @router.post("/traces")
    def trace(request: Request, question: Question) -> dict[str, Any]:
        return desk.ask(request, Asked(**question.model_dump()))

    @router.post("/images")
    def image(request: Request, run: str, picture: Annotated[bytes, Depends(_body)]) -> dict[str, Any]:
        opened = desk.shelf.open(run)
        with desk.working:
            seen = ask_about_image(opened, picture)
        return desk.keep(request, seen)

    @router.get("/traces/{trace}/weights")
    def weights(request: Request, trace: str, kind: str) -> Response:
        return payloads.weights(desk.seen(request, trace).trace, kind)

    @router.get("/traces/{trace}/values")
    def values(request: Request, trace: str, name: str, at: str = "") -> Response:
        return payloads.values(desk.seen(request, trace).trace, name, _indices(at))

    @router.get("/traces/{trace}/recipe")
    def recipe(request: Request, trace: str, name: str) -> dict[str, Any]:
        return payloads.recipe(desk.seen(request, trace), name)

    @router.get("/traces/{trace}/cell")
    def cell(request: Request, trace: str, name: str, at: str) -> dict[str, Any]:
        return cell_of(desk.seen(request, trace), name, _indices(at))

    return router


def _indices(at: str) -> tuple[int, ...]:
    try:
        return tuple(int(i) for i in at.split(",")) if at else ()
    except ValueError:
        raise UserError("These are no indices.", where=at, hint="give numbers with commas between them: 0,3") from None
