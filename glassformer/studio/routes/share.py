"""A run as one HTML page, to download and send to others."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from fastapi import APIRouter, Response

from glassformer.interop.page_export import export_page
from glassformer.studio.context import StudioContext


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.get("/page")
    def page(run: str) -> Response:
        folder = context.models.folder(run)
        with TemporaryDirectory() as temporary, context.model_lock:
            out = Path(temporary) / "page.html"
            export_page(folder.path, out)
            return Response(out.read_bytes(), media_type="text/html", headers={"Content-Disposition": "attachment"})

    return router
