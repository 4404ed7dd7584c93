"""Runs the service with uvicorn: drains on SIGTERM, reloads models and keys on SIGHUP."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from types import FrameType
from typing import Any

import uvicorn

from glassformer.serving.app import Application, application
from glassformer.serving.logs import log, log_error, set_up_logging
from glassformer.serving.options import ServeOptions
from glassformer.serving.translation import PoolInterface

MAX_CONNECTIONS = 2_000  # further ones are answered 503


class Server(uvicorn.Server):
    """A uvicorn server whose /ready returns 503 as soon as shutdown begins."""

    def __init__(self, app: Application, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting connections, after `ready_delay` seconds in which load balancers notice /ready."""
        delay = self._app.service.options.ready_delay
        was_ready, self._app.service.is_ready = self._app.service.is_ready, False
        if delay and was_ready and sig == signal.SIGTERM:
            log("draining", seconds=delay)
            self._loop.call_soon_threadsafe(self._loop.call_later, delay, super().handle_exit, sig, frame)
        else:
            super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await self._app.service.start()  # here, not in the lifespan, the error of a damaged run reaches the caller
        await super().startup(sockets)
        gc.freeze()  # exclude the objects of the start-up from garbage collection
        if self._app.service.languages.codes:
            self._app.service.detector.start()
        if self.started and hasattr(signal, "SIGHUP"):
            self._loop.add_signal_handler(signal.SIGHUP, self._reload)

    def _reload(self) -> None:
        self._reloading = asyncio.ensure_future(self._reload_all())

    async def _reload_all(self) -> None:
        try:
            await self._app.service.reload()
        except Exception as error:  # the old models and keys stay in use
            log_error("reload failed", error, reason=str(error))


def _http_protocol() -> Any:
    try:
        from glassformer.serving.http_protocol import LimitedHttpProtocol
    except ImportError:  # httptools is not installed
        return "h11"
    return LimitedHttpProtocol


def run_server(
    pool: PoolInterface, options: ServeOptions, listening: socket.socket, *, trusted_proxies: str = ""
) -> None:
    """Serve until a signal ends it.

    Args:
        trusted_proxies: addresses, separated by commas, whose X-Forwarded-For header names the client.

    Raises:
        UserError: if a run cannot be loaded.
    """
    set_up_logging(with_text=options.log_text)
    app = application(pool, options)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=trusted_proxies or None,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=65,  # longer than that of a load balancer, so that the balancer closes idle connections
        timeout_graceful_shutdown=int(options.drain_seconds) + 1,
        http=_http_protocol(),
    )
    Server(app, config).run(sockets=[listening])
