"""The gate that every request passes: access control, size limits and the time limit.

An ASGI middleware. It reads the whole body, within its limit, before the request is handled. After that it waits for
the end of the connection next to the handler, so that the work for a client that disconnects is cancelled at once.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response

from glassformer.serving.keys import Key
from glassformer.serving.logs import log, log_error
from glassformer.serving.metrics import Metrics
from glassformer.serving.options import ServeOptions
from glassformer.serving.parameters import read_parameters
from glassformer.serving.rate_limits import RateLimiter
from glassformer.serving.request_errors import RequestError, as_request_error, error_response, internal_error
from glassformer.web_requests import SECURITY_HEADERS, host_name, is_local, is_own_origin

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Endpoints that need no key. All others need one if the service has keys.
OPEN = frozenset({"/", "/docs", "/health", "/ready", "/languages", "/frontend/settings", "/spec", "/openapi.json"})
OPEN_FOLDERS = ("/static/", "/download_file/")
NOT_LIMITED = frozenset({"/health", "/ready", "/metrics"})  # polled by load balancers and Prometheus
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
FAILURES_PER_MINUTE = 30  # wrong keys per address


class ClientGone(Exception):
    """The client closed the connection before the response was complete."""


class Gate:
    """Checks requests, measures and logs them, and adds the security headers to responses."""

    def __init__(self, app: App, *, options: ServeOptions, metrics: Metrics) -> None:
        self.app, self.options, self.metrics = app, options, metrics
        self._limiter, self._failures = RateLimiter(), RateLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = Exchange(self, scope, receive, send)
        self.metrics.running.inc()
        try:
            await exchange.run()
        finally:
            self.metrics.running.dec()
            exchange.record()

    # ------------------------------------------------------------------------------ checks, in order

    def check_origin(self, headers: Headers, method: str) -> None:
        """Refuse a Host that is not this machine (DNS rebinding), and requests from pages of other origins."""
        host, origin = headers.get("host", ""), headers.get("origin")
        try:
            is_known = is_local(host) or host_name(host) in self.options.host_names
        except ValueError:
            is_known = False
        if not is_known:
            self.metrics.refused.labels("host").inc()
            raise RequestError(403, "The Host header does not name this server.", hint="start it with --host-name")
        if not is_own_origin(origin, host) and origin not in self.options.origins and method not in ("GET", "HEAD"):
            self.metrics.refused.labels("origin").inc()
            raise RequestError(403, "Requests of this web page are not allowed.", hint="start it with --cors ORIGIN")

    def check_size(self, headers: Headers) -> None:
        size = headers.get("content-length", "0")
        if not size.isdecimal() or int(size) > self.options.limits.body:
            raise self.too_large()

    def too_large(self) -> RequestError:
        self.metrics.refused.labels("size").inc()
        limit = f"{self.options.limits.body:,} bytes"
        return RequestError(413, f"The request is larger than the limit of {limit}.", hint="send less at a time")

    async def check_key(self, request: Request, path: str) -> Key | None:
        """Return the key of a request. Refuse it if it needs a key and has none, or has a wrong one."""
        keys = self.options.keys
        if keys is None or path in OPEN or path.startswith(OPEN_FOLDERS):
            return None
        secret = await _secret(request, path)
        found = keys.find(secret) if secret else None
        if found is not None:
            return found
        self.metrics.refused.labels("key").inc()
        if wait := self._failures.wait(_address(request), FAILURES_PER_MINUTE):
            raise RequestError(429, "Slowdown: too many requests without a valid key.", retry_after=wait)
        is_ours = path.startswith("/v1/") or path == "/metrics"
        if secret:
            raise RequestError(401 if is_ours else 403, "Invalid API key")
        # LibreTranslate answers 400 to a missing key and 403 to a wrong one.
        hint = "send Authorization: Bearer KEY"
        raise RequestError(401 if is_ours else 400, "Please contact the server operator to get an API key", hint=hint)

    def check_rate(self, request: Request, key: Key | None, path: str) -> None:
        if path in NOT_LIMITED:
            return
        limit = self.options.limits.requests_per_minute
        if key is not None and key.requests_per_minute is not None:
            limit = key.requests_per_minute
        if wait := self._limiter.wait(f"key {key.name}" if key else _address(request), limit):
            self.metrics.refused.labels("rate").inc()
            raise RequestError(429, f"Slowdown: {limit} per 1 minute", retry_after=wait)


class Exchange:
    """One request and its response."""

    def __init__(self, gate: Gate, scope: Scope, receive: Receive, send: Send) -> None:
        self.gate, self.scope, self._receive, self._send = gate, scope, receive, send
        self.headers = Headers(scope=scope)
        given = self.headers.get("x-request-id", "")
        self.id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        self.began = time.perf_counter()
        self.status = 0
        self.complete = False  # the whole response was sent
        self.key: Key | None = None
        self.details: dict[str, object] = {}  # added to the log by the handler
        # Clients write /translate, /translate/ and //translate.
        self.path = scope["path"] = re.sub(r"/{2,}", "/", scope["path"]).rstrip("/") or "/"
        scope["exchange"] = self

    async def run(self) -> None:
        limit = self.gate.options.limits.seconds
        try:
            async with asyncio.timeout(limit):
                await self._run()
        except TimeoutError:
            self.gate.metrics.refused.labels("time").inc()
            message = f"The request took longer than the limit of {limit:g} seconds."
            await self.refuse(RequestError(504, message, hint="send less text at a time"))
        except ClientGone:
            self.gate.metrics.disconnected.inc()
            self.status = self.status or 499  # the status that nginx logs; the client does not receive it
        except Exception as error:
            known = as_request_error(error)
            if known is None:
                log_error("error", error, id=self.id, path=self.path)
                known = internal_error(self.id)
            await self.refuse(known)

    async def _run(self) -> None:
        gate, method = self.gate, self.scope["method"]
        gate.check_origin(self.headers, method)
        if method == "OPTIONS" and self.headers.get("origin") in gate.options.origins:
            await Response(status_code=204)(self.scope, self._receive, self.send)
            return
        gate.check_size(self.headers)
        body = await self._read_body()
        request = Request(self.scope, _Replay(body))
        self.key = await gate.check_key(request, self.path)
        gate.check_rate(request, self.key, self.path)
        await self._handle(body)

    async def _read_body(self) -> bytes:
        """Read the body, which may also be sent in chunks without a Content-Length."""
        parts, size = list[bytes](), 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.gate.options.limits.body:
                raise self.gate.too_large()
            if not message.get("more_body"):
                return b"".join(parts)

    async def _handle(self, body: bytes) -> None:
        """Run the handler until it is done or the client disconnects.

        A client may disconnect when it has the whole response. The handler then closes its files and returns.
        """
        replay = _Replay(body)
        handler = asyncio.ensure_future(self.gate.app(self.scope, replay, self.send))
        connection = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait((handler, connection), return_when=asyncio.FIRST_COMPLETED)
            if not handler.done() and not self.complete:
                raise ClientGone
            await handler
        finally:
            for task in (handler, connection):
                task.cancel()
            await asyncio.gather(handler, connection, return_exceptions=True)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            headers["X-Request-ID"] = self.id
            self._allow_origin(headers)
        self.complete = message["type"] == "http.response.body" and not message.get("more_body")
        await self._send(message)

    def _allow_origin(self, headers: MutableHeaders) -> None:
        """Let pages of the named origins read the response (CORS). There are none by default."""
        origin = self.headers.get("origin")
        if origin is not None and origin in self.gate.options.origins:
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Allow-Methods"] = "GET, POST"
            headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type"
            headers["Cross-Origin-Resource-Policy"] = "cross-origin"
            headers.add_vary_header("Origin")

    async def refuse(self, error: RequestError) -> None:
        """Send an error, unless a part of the response is already sent."""
        if not self.status:
            await error_response(error, self.path)(self.scope, self._receive, self.send)

    def record(self) -> None:
        """Count and log the request. The query string is not logged: it may contain a text or a key."""
        seconds = time.perf_counter() - self.began
        route = getattr(self.scope.get("route"), "path", "other")
        method = self.scope["method"] if self.scope["method"] in ("GET", "POST", "HEAD", "OPTIONS") else "other"
        self.gate.metrics.requests.labels(route, method, str(self.status)).inc()
        self.gate.metrics.seconds.labels(route).observe(seconds)
        key = {"key": self.key.name} if self.key else {}
        log("request", id=self.id, method=method, route=route, status=self.status, ms=round(1000 * seconds, 1), **key,
            **self.details)  # fmt: skip


class _Replay:
    """Passes the handler a body that has already been read. The gate, not this, reports a closed connection."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    async def __call__(self) -> Message:
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _secret(request: Request, path: str) -> str:
    """Return the key of a request: from its header or, as in LibreTranslate, from the parameter api_key."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if path.startswith("/v1/"):
        return ""
    given = (await read_parameters(request)).get("api_key")
    return given if isinstance(given, str) else ""


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"
