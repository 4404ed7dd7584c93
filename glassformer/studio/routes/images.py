"""Images: a picture that the visitor uploads, or an example of the training data."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from glassformer.studio.context import StudioContext
from glassformer.studio.tracing import ask_about_example, ask_about_image, image_examples


async def _body(request: Request) -> bytes:
    """Read the raw body. Reading needs the event loop; the model must not run there, so this is a dependency."""
    return await request.body()


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.post("/images")
    def image(request: Request, run: str, picture: Annotated[bytes, Depends(_body)]) -> dict[str, Any]:
        opened = context.models.load(run)
        with context.model_lock:
            result = ask_about_image(opened, picture)
        return context.store(request, result)

    @router.get("/image-examples")
    def examples(run: str) -> list[str]:
        """Return the label of each example image; none if the training data was moved."""
        return [example.label for example in image_examples(context.models.load(run))]

    @router.post("/image-examples")
    def example(request: Request, run: str, number: int) -> dict[str, Any]:
        opened = context.models.load(run)
        with context.model_lock:
            result = ask_about_example(opened, number)
        return context.store(request, result)

    return router
