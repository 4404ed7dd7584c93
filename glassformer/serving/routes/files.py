"""Files, as in LibreTranslate: upload with /translate_file, then download the translation."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from glassformer.serving.parameters import encodable, file_of, read_parameters, text_of
from glassformer.serving.request_errors import RequestError
from glassformer.serving.routes.libretranslate import FILES, RESPONSES, describe, translate_texts
from glassformer.serving.routes.schemas import FILE_BODY, form_schema
from glassformer.serving.service import Service

KINDS = dict(zip(FILES, ("text", "html", "html", "srt"), strict=True))  # format by file extension


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["LibreTranslate"], responses=RESPONSES)

    @router.post("/translate_file", openapi_extra=form_schema(FILE_BODY))
    async def translate_file(request: HttpRequest) -> dict[str, Any]:
        """Translate a file (.txt, .html or .srt in UTF-8) and return the address of the translation."""
        given = await read_parameters(request)
        file, source, target = file_of(given, "file"), text_of(given, "source"), text_of(given, "target")
        name = encodable(file.filename or "", "file")
        stem, dot, ending = name.rpartition(".")
        kind = KINDS.get(dot + ending.lower())
        if kind is None:
            formats = ", ".join(FILES)
            raise RequestError(400, "Invalid request: file format not supported", hint=f"the formats are {formats}")
        try:
            text = (await file.read()).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise RequestError(400, "Invalid request: the file is not UTF-8", parameter="file") from None
        finally:
            await file.close()
        service.check_texts([text])
        request.scope["exchange"].details |= describe(service, [text])
        [(route, translation)] = await translate_texts(service, [text], source, target, kind)
        token = service.files.add(f"{stem}_{route.target}.{ending}", translation.text.encode())
        return {"translatedFileUrl": f"{str(request.base_url).rstrip('/')}/download_file/{quote(token)}"}

    @router.get("/download_file/{filename}", response_class=Response)
    async def download_file(filename: str) -> Response:
        """Download a translated file. It is kept for an hour."""
        found = service.files.get(filename)
        if found is None:
            raise RequestError(404, "The file does not exist or has expired.")
        headers = {
            # Never shown as a page of this server: its content comes from elsewhere.
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.name)}",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return Response(found.content, media_type="application/octet-stream", headers=headers)

    return router
