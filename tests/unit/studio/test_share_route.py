"""The page that the button "Share" downloads."""

from __future__ import annotations

from fastapi.testclient import TestClient

from glassformer.engine.library import Unavailable, library


def test_the_page_of_a_run_is_downloaded(visitor: TestClient) -> None:
    answer = visitor.get("/api/page", params={"run": "phrasebook"})
    try:
        library()
    except Unavailable:
        assert "native engine" in answer.json()["what"]
        return
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"] == "attachment"
    assert '<script type="text/plain" id="payload">' in answer.text


def test_an_unknown_run_is_refused(visitor: TestClient) -> None:
    assert visitor.get("/api/page", params={"run": "other"}).status_code == 400
