"""Access control, size limits and time limits of the service. Every test fails without the line that it checks."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from glassformer.serving.keys import KeyStore, add_key
from glassformer.serving.logs import LOGGER, JsonFormatter
from glassformer.serving.options import is_loopback

Serve = Callable[..., TestClient]
ASK = {"q": "I am a student", "source": "en", "target": "fr"}
FRENCH = {"translatedText": "Je suis étudiant"}
OPEN = {"/", "/docs", "/health", "/ready", "/languages", "/frontend/settings", "/spec", "/openapi.json",
        "/download_file/{filename}"}  # fmt: skip


@pytest.fixture
def keys(tmp_path: Path) -> tuple[KeyStore, str, str]:
    """A store with a key for users and one for administrators."""
    file = tmp_path / "keys.json"
    user, admin = add_key(file, "user"), add_key(file, "boss", admin=True, requests_per_minute=5)
    return KeyStore(file), user, admin


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_a_host_that_is_not_this_machine_is_refused(serve: Serve) -> None:
    client = serve(host_names=frozenset({"translate.example.org"}))
    for host in ("example.org", "127.0.0.1.example.org", "", "["):
        for path in ("/", "/health", "/static/page.js"):
            answer = client.get(path, headers={"Host": host})
            assert answer.status_code == 403 and "Host" in answer.json()["error"]
    for host in ("127.0.0.1:5000", "localhost", "[::1]:5000", "translate.example.org:443"):
        assert client.get("/health", headers={"Host": host}).status_code == 200


def test_pages_from_elsewhere_are_refused_unless_named(serve: Serve) -> None:
    client = serve(origins=frozenset({"https://friend.example"}))
    for origin in ("https://example.org", "null", "http://127.0.0.1:9"):
        answer = client.post("/translate", json=ASK, headers={"Origin": origin})
        assert answer.status_code == 403 and "Access-Control-Allow-Origin" not in answer.headers
        assert client.options("/translate", headers={"Origin": origin}).status_code == 403
    for origin in ("http://127.0.0.1:5000", "https://friend.example"):
        assert client.post("/translate", json=ASK, headers={"Origin": origin}).json() == FRENCH


def test_cors_only_for_named_origins(serve: Serve) -> None:
    headers = {"Origin": "https://friend.example", "Access-Control-Request-Method": "POST"}
    assert "Access-Control-Allow-Origin" not in serve().get("/languages", headers=headers).headers
    client = serve(origins=frozenset({"https://friend.example"}))
    for answer in (client.options("/translate", headers=headers), client.get("/languages", headers=headers)):
        assert answer.is_success and answer.headers["Access-Control-Allow-Origin"] == "https://friend.example"
        assert "Origin" in answer.headers["Vary"]
    assert (
        "Access-Control-Allow-Origin"
        not in client.get("/languages", headers={"Origin": "https://other.example"}).headers
    )


def test_every_response_has_the_security_headers(serve: Serve) -> None:
    client = serve()
    for answer in (
        client.get("/"),
        client.get("/nothing"),
        client.post("/translate"),
        client.get("/x", headers={"Host": "y"}),
    ):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy and "frame-ancestors" in policy


def test_every_address_needs_a_key_but_the_open_ones(serve: Serve, keys: tuple[KeyStore, str, str]) -> None:
    client = serve(keys=keys[0])
    paths = client.get("/openapi.json").json()["paths"]
    assert len(paths) > 15
    for path, methods in paths.items():
        for method in methods:
            answer = client.request(method, path.replace("{name}", "en-fr"))
            assert (answer.status_code in (400, 401) and "API key" in answer.text) == (path not in OPEN), path


def test_keys_in_every_place(serve: Serve, keys: tuple[KeyStore, str, str]) -> None:
    store, user, _ = keys
    client = serve(keys=store)
    for answer in (
        client.post("/translate", json=ASK | {"api_key": user}),
        client.post("/translate", data=ASK | {"api_key": user}),
        client.post("/translate", params=ASK | {"api_key": user}),
        client.post("/translate", json=ASK, headers=bearer(user)),
    ):
        assert answer.json() == FRENCH
    assert client.post("/v1/translate", json={"text": "Hi", "target": "fr"}, headers=bearer(user)).status_code == 200
    assert client.get("/metrics", headers=bearer(user)).status_code == 200


def test_wrong_and_missing_keys(serve: Serve, keys: tuple[KeyStore, str, str]) -> None:
    client = serve(keys=keys[0])
    for wrong in ("x", keys[1][:-1], keys[1] + "x", keys[0].keys[0].hash, ["a"], "\ud800"):
        body = json.dumps(ASK | {"api_key": wrong})
        answer = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == (400 if isinstance(wrong, list) else 403) and set(answer.json()) == {"error"}
    assert client.post("/translate", json=ASK).status_code == 400
    assert client.get("/v1/models").status_code == client.get("/v1/models", headers=bearer("x")).status_code == 401
    assert client.get("/v1/models", params={"api_key": keys[1]}).status_code == 401  # addresses are logged by proxies


def test_guessing_keys_is_limited(serve: Serve, keys: tuple[KeyStore, str, str]) -> None:
    client = serve(keys=keys[0])
    statuses = [client.get("/v1/models", headers=bearer(f"x{n}")).status_code for n in range(32)]
    assert statuses == [401] * 30 + [429] * 2
    assert client.get("/v1/models", headers=bearer(keys[1])).status_code == 200


def test_rate_limit_per_address(serve: Serve) -> None:
    client = serve(requests_per_minute=3)
    answers = [client.get("/languages") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert "Slowdown" in answers[3].json()["error"] and 1 <= int(answers[3].headers["Retry-After"]) <= 20
    assert client.get("/ready").status_code == client.get("/health").status_code == 200


def test_rate_limit_per_key(serve: Serve, keys: tuple[KeyStore, str, str]) -> None:
    store, user, admin = keys
    client = serve(keys=store, requests_per_minute=2)
    for key, allowed in ((user, 2), (admin, 5)):
        statuses = [client.get("/v1/models", headers=bearer(key)).status_code for _ in range(allowed + 1)]
        assert statuses == [200] * allowed + [429]


def test_bodies_beyond_the_limit(serve: Serve) -> None:
    client = serve(body=1000)
    for content in (b"x" * 1001, iter([b"x" * 600, b"x" * 600])):  # the second one is sent in chunks
        answer = client.post("/translate", content=content)
        assert answer.status_code == 413 and "1,000 bytes" in answer.json()["error"]
    assert client.post("/translate", json=ASK).json() == FRENCH


def test_requests_that_take_too_long(serve: Serve) -> None:
    client = serve(seconds=1.0)
    answer = client.post("/translate", json=ASK | {"q": "I am a student. " * 3000})
    assert answer.status_code == 504 and "1 seconds" in answer.json()["error"]
    assert client.post("/translate", json=ASK).status_code == 200  # what was left of it does not block the next one


def test_a_full_queue_is_429(serve: Serve) -> None:
    client = serve(queue_size=0)
    answer = client.post("/translate", json=ASK)
    assert answer.status_code == 429 and answer.headers["Retry-After"] == "1"
    assert (
        client.post("/v1/translate", json={"text": "x", "target": "fr", "source": "en"}).json()["error"]["type"]
        == "rate_limit_error"
    )


def test_a_kind_of_model_that_is_not_served(serve: Serve) -> None:
    client = serve()
    for path, given in (("/v1/completions", {"prompt": "x"}), ("/v1/predict", {"texts": ["x"]})):
        answer = client.post(path, json=given)
        assert answer.status_code == 404 and answer.json()["error"]["hint"] == "it serves: en-fr"


def test_a_lost_worker_is_503(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.serving.jobs import Job, Result, WorkerLost
    from glassformer.serving.pool import Pool

    async def lose(self: Pool, job: Job) -> Result:
        raise WorkerLost

    monkeypatch.setattr(Pool, "submit", lose)
    answer = serve().post("/translate", json=ASK)
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "1"


def test_only_administrators_reload(serve: Serve, keys: tuple[KeyStore, str, str]) -> None:
    store, user, admin = keys
    client = serve(keys=store)
    assert client.post("/v1/models/en-fr/reload", headers=bearer(user)).status_code == 403
    assert client.post("/v1/models/en-fr/reload", headers=bearer(admin)).json()["reloaded"] is True
    # Without keys the client must be on this machine; the test client says that it is "testclient".
    assert serve().post("/v1/models/en-fr/reload").status_code == 403


@pytest.fixture
def log_of() -> Any:
    """`log_of(with_text)`: what is logged from then on."""

    def start(with_text: bool) -> io.StringIO:
        out = io.StringIO()
        handler = logging.StreamHandler(out)
        handler.setFormatter(JsonFormatter(with_text=with_text))
        LOGGER.handlers, LOGGER.propagate = [handler], False
        LOGGER.setLevel(logging.INFO)
        return out

    before = LOGGER.handlers, LOGGER.propagate, LOGGER.level
    yield start
    LOGGER.handlers, LOGGER.propagate, level = before
    LOGGER.setLevel(level)


SECRET = "Xylophone"


def provoke(serve: Serve, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """Send the word in every way, also in requests that fail and that raise an unexpected error."""
    client = serve(**options)
    client.post("/translate", json=ASK | {"q": SECRET})
    client.post("/translate", params=ASK | {"q": SECRET, "api_key": SECRET})
    client.post("/translate", json=ASK | {"q": SECRET, "target": SECRET})
    client.post("/v1/translate", json={"text": SECRET, "target": "fr", "beam": SECRET})
    client.get(f"/{SECRET}")
    client.post("/translate_file", files={"file": (f"{SECRET}.txt", SECRET.encode())}, data=ASK)

    def fail(*_: Any) -> None:
        raise KeyError(SECRET)

    monkeypatch.setattr("glassformer.serving.translation._assemble", fail)
    answer = client.post("/translate", json=ASK | {"q": SECRET})
    assert answer.status_code == 500 and answer.json() == {"error": "Internal error."}


def test_logs_have_no_text_of_users(serve: Serve, log_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out = log_of(with_text=False)
    provoke(serve, monkeypatch)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert SECRET not in out.getvalue()
    (error,) = [line for line in lines if line["event"] == "error"]
    assert error["error"] == "KeyError" and any("translation.py" in place for place in error["at"])
    requests = [line for line in lines if line["event"] == "request"]
    assert [line["status"] for line in requests] == [200, 200, 400, 400, 404, 200, 500]
    assert requests[-1]["id"] == error["id"] and requests[0]["characters"] == len(SECRET)


def test_texts_are_logged_if_asked_for(serve: Serve, log_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out = log_of(with_text=True)
    provoke(serve, monkeypatch, log_text=True)
    assert SECRET in out.getvalue()


def test_addresses_of_this_machine() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.3.4.5", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))
