"""Security checks of every request: only pages served from this machine, one cookie per visitor, a size limit."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from fastapi import Request, Response

from glassformer.errors import Message
from glassformer.studio.serialization import error_response
from glassformer.web_requests import SECURITY_HEADERS, is_local, is_own_origin

COOKIE = "visitor"
MAX_BYTES = 2**23  # of a request: an image

Handler = Callable[[Request], Awaitable[Response]]


async def security_middleware(request: Request, handler: Handler) -> Response:
    """Refuse requests from other pages and requests that are too large; identify the visitor by a cookie."""
    if refusal := _refusal(request):
        return error_response(403, refusal, hint="open the address printed by glassformer studio")
    if _size(request) > MAX_BYTES:
        hint = Message("send at most {n} MB", n=MAX_BYTES >> 20)
        return error_response(413, "The request is too large.", hint=hint)
    known = request.cookies.get(COOKIE)
    request.state.visitor = known or secrets.token_urlsafe(16)
    response = await handler(request)
    response.headers.update(SECURITY_HEADERS)
    if not known:
        response.set_cookie(COOKIE, request.state.visitor, httponly=True, samesite="strict")
    return response


def _size(request: Request) -> float:
    """Return the size of the body in bytes; infinite if the headers do not say, as a chunked body may never end."""
    size = request.headers.get("content-length", "0")
    return int(size) if size.isdecimal() and "transfer-encoding" not in request.headers else float("inf")


def _refusal(request: Request) -> str:
    host = request.headers.get("host", "")
    if not is_local(host):
        return "The studio only answers requests addressed to this machine."
    if request.method not in ("GET", "HEAD") and not is_own_origin(request.headers.get("origin"), host):
        return "The studio only accepts requests from its own page."
    return ""
