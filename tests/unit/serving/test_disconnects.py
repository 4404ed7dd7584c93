"""Clients that disconnect before and after the end of the response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

ROUNDS = 50


@pytest.mark.parametrize("complete", [True, False])
def test_only_an_unfinished_response_is_cancelled(
    serve: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch, complete: bool
) -> None:
    """A handler has something left to do after the response, such as closing a file."""
    client, ended = serve(), list[bool]()
    gate: Any = client.app

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"text", "more_body": not complete})
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
        ended.append(True)

    async def exchange() -> None:
        requests, sent = [{"type": "http.request", "body": b""}], asyncio.Event()

        async def receive() -> dict[str, Any]:
            if requests:
                return requests.pop()
            await sent.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                sent.set()

        headers = [(b"host", b"127.0.0.1:5000")]
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers}
        await gate(scope | {"client": ("127.0.0.1", 1), "scheme": "http", "server": None}, receive, send)

    monkeypatch.setattr(gate, "app", handler)
    before = gate.metrics.disconnected._value.get()
    asyncio.run(exchange())
    assert (ended, gate.metrics.disconnected._value.get() - before) == (([True], 0) if complete else ([], 1))
