"""Who may come in: no page from elsewhere, and nobody to another's traces."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from glassformer.studio.app import studio
from glassformer.web_requests import is_local

QUESTION = {"run": "phrasebook", "text": "I am a student"}


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:80", "[::1]:8000", "192.168.0.7:8000"])
def test_this_machine(host: str) -> None:
    assert is_local(host)


@pytest.mark.parametrize("host", ["", "example.org", "localhost.example.org:8000", "127.0.0.1.example.org", "[", "a:b"])
def test_elsewhere(host: str) -> None:
    assert not is_local(host)


def test_a_foreign_host_is_refused(visitor: TestClient) -> None:
    for path in ("/", "/api/runs", "/static/style.css"):
        answer = visitor.get(path, headers={"Host": "example.org"})
        assert answer.status_code == 403 and "this machine" in answer.json()["what"]


def test_questions_of_another_page_are_refused(visitor: TestClient) -> None:
    for origin in ("http://example.org", "http://127.0.0.1:9000", "null"):
        answer = visitor.post("/api/traces", json=QUESTION, headers={"Origin": origin})
        assert answer.status_code == 403 and "its own page" in answer.json()["what"]
    assert visitor.post("/api/traces", json=QUESTION, headers={"Origin": "http://127.0.0.1:8000"}).status_code == 200


def test_too_much_at_once(visitor: TestClient) -> None:
    answer = visitor.post("/api/images?run=phrasebook", content=b"x" * (2**23 + 1))
    assert answer.status_code == 413


def test_every_answer_forbids_what_the_page_does_not_need(visitor: TestClient) -> None:
    for path in ("/", "/static/js/main.js", "/api/runs"):
        headers = visitor.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_the_cookie_is_for_this_page_alone(visitor: TestClient) -> None:
    cookie = visitor.get("/").headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie


def test_two_visitors_see_their_own(run: Path) -> None:
    app = studio([run])
    one, other = (TestClient(app, base_url="http://127.0.0.1:8000") for _ in range(2))
    mine = one.post("/api/traces", json=QUESTION).json()["id"]
    theirs = other.post("/api/traces", json=QUESTION).json()["id"]
    assert one.get(f"/api/traces/{mine}/choices").status_code == 200
    stolen, unknown = one.get(f"/api/traces/{theirs}/choices"), one.get("/api/traces/unknown/choices")
    assert (stolen.status_code, stolen.json()) == (unknown.status_code, unknown.json())
    assert stolen.status_code == 404 and "does not exist" in stolen.json()["what"]
