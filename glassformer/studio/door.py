"""Who may come in: pages of this machine only, each visitor with a cookie that says who it is.

A page from elsewhere can make a browser send requests here. It cannot read the answers, unless its own name is made to
point to this machine (DNS rebinding): then the Host header has that name, and the request is refused.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from fastapi import Request, Response
from fastapi.responses import JSONResponse

COOKIE = "visitor"
MOST_BYTES = 2**23  # of a request: a picture
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

Answer = Callable[[Request], Awaitable[Response]]


async def door(request: Request, answer: Answer) -> Response:
    """Middleware around every request."""
    if refusal := _refusal(request):
        told = {"what": refusal, "where": "", "fix": "open the address that glassformer studio printed"}
        return JSONResponse(told, status_code=403)
    if _size(request) > MOST_BYTES:
        told = {"what": "This is too much at once.", "where": "", "fix": f"send at most {MOST_BYTES >> 20} MB"}
        return JSONResponse(told, status_code=413)
    known = request.cookies.get(COOKIE)
    request.state.visitor = known or secrets.token_urlsafe(16)
    response = await answer(request)
    response.headers.update(HEADERS)
    if not known:
        response.set_cookie(COOKIE, request.state.visitor, httponly=True, samesite="strict")
    return response


def _size(request: Request) -> float:
    """Return the size of the body in bytes: infinite where the headers do not say, as a chunked body may never end."""
    size = request.headers.get("content-length", "0")
    return int(size) if size.isdecimal() and "transfer-encoding" not in request.headers else float("inf")


def _refusal(request: Request) -> str:
    host = request.headers.get("host", "")
    if not is_here(host):
        return "The studio answers to the name of this machine only."
    origin = request.headers.get("origin")
    if request.method not in ("GET", "HEAD") and origin not in (None, f"http://{host}", f"https://{host}"):
        return "The studio takes questions from its own page only."
    return ""


def is_here(host: str) -> bool:
    """An address in numbers or a name of this machine: what no page from elsewhere can have for its own."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if name in ("localhost", socket.gethostname().lower()):
            return True
        ip_address(name)
    except ValueError:
        return False
    return True
