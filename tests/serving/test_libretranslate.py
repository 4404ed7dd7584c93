"""LibreTranslate's wire format, as its documentation and its own tests describe it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from server_process import ServerProcess

ONE, TWO = "I am a student.", "The cat sleeps."


def translate(server: ServerProcess, **given: Any) -> Any:
    answer = server.client.post("/translate", json={"source": "en", "target": "fr"} | given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_json_form_and_query_string_give_the_same(server: ServerProcess, french: dict[str, str]) -> None:
    given = {"q": ONE, "source": "en", "target": "fr"}
    for answer in (
        server.client.post("/translate", json=given),
        server.client.post("/translate", data=given),
        server.client.post("/translate", params=given),
        server.client.post("/translate/", params=given),
        server.client.post(f"{server.url}//translate/", json=given | {"apiKey": "", "api_key": None, "unknown": [1]}),
        server.client.post("/translate", files={name: (None, value) for name, value in given.items()}),
    ):
        assert (answer.status_code, answer.json()) == (200, {"translatedText": french[ONE]})


def test_a_list_gives_lists(server: ServerProcess, french: dict[str, str]) -> None:
    answer = translate(server, q=[ONE, TWO], source="auto", alternatives=2)
    assert answer["translatedText"] == [french[ONE], french[TWO]]
    assert [found["language"] for found in answer["detectedLanguage"]] == ["en", "en"]
    assert [len(others) for others in answer["alternatives"]] == [2, 2]


def test_fields_are_present_only_if_asked_for(server: ServerProcess, french: dict[str, str]) -> None:
    assert set(translate(server, q=ONE)) == {"translatedText"}
    answer = translate(server, q=ONE, source="auto", alternatives="1")
    assert set(answer) == {"translatedText", "detectedLanguage", "alternatives"}
    assert answer["detectedLanguage"]["language"] == "en" and 50 < answer["detectedLanguage"]["confidence"] <= 100
    assert len(answer["alternatives"]) == 1 and answer["translatedText"] not in answer["alternatives"]


def test_paragraphs_and_html(server: ServerProcess, french: dict[str, str]) -> None:
    text = translate(server, q=f"{ONE}  {TWO}\n\n  {ONE}\n")["translatedText"]
    assert text == f"{french[ONE]}  {french[TWO]}\n\n  {french[ONE]}\n"
    html = translate(server, q=f'<p id="x">I am a <b>student</b>.<!-- c --></p>\n<hr><p>{TWO}</p>', format="html")
    assert html["translatedText"].startswith('<p id="x">') and "étudiant</b>" in html["translatedText"]
    assert html["translatedText"].endswith(f"<!-- c --></p>\n<hr><p>{french[TWO]}</p>")


def test_a_text_in_the_target_language_or_without_letters_is_returned(server: ServerProcess) -> None:
    assert translate(server, q="Bonjour, je suis étudiant.", source="auto")["translatedText"].startswith("Bonjour")
    assert translate(server, q="Bonjour", source="fr") == {"translatedText": "Bonjour"}
    assert translate(server, q="😀 !!", source="auto")["translatedText"] == "😀 !!"
    assert translate(server, q="😀 !!", source="auto")["detectedLanguage"]["confidence"] == 0


def test_regions_of_languages_are_accepted(server: ServerProcess, french: dict[str, str]) -> None:
    assert translate(server, q=ONE, source="en-US", target="FR")["translatedText"] == french[ONE]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": 5}, "Invalid request: q parameter is not a string"),
        ({"q": ["a", 5]}, "Invalid request: q parameter is not a list of strings"),
        ({"q": "\ud800"}, "Invalid request: q parameter is not valid Unicode"),
        ({"q": "x", "source": None}, "Invalid request: missing source parameter"),
        ({"q": "x", "target": ""}, "Invalid request: missing target parameter"),
        ({"q": "x", "target": "zz"}, "zz is not supported"),
        ({"q": "x", "source": "zz"}, "zz is not supported"),
        ({"q": "x", "source": "fr", "target": "en"},
         "English (en) is not available as a target language from French (fr)"),
        ({"q": "x", "format": "xml"}, "xml format is not supported"),
        ({"q": "x", "alternatives": "many"}, "Invalid request: alternatives parameter is not a number"),
        ({"q": "x", "alternatives": 99}, "Invalid request: alternatives parameter must be <= 15"),
        ({"q": "x" * 50_001}, "Invalid request: request (50001) exceeds text limit (50000)"),
        ({"q": ["x"] * 257}, "Invalid request: request (257) exceeds text limit (256)"),
    ],
)  # fmt: skip
def test_errors_are_400_with_one_field(server: ServerProcess, given: dict[str, Any], message: str) -> None:
    body = json.dumps({"source": "en", "target": "fr"} | given)  # escapes lone surrogates, as clients may
    answer = server.client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()) == (400, {"error": message})


def test_a_sentence_that_is_too_long_names_the_limit(server: ServerProcess) -> None:
    answer = server.client.post("/translate", json={"q": "word " * 500, "source": "en", "target": "fr"})
    assert answer.status_code == 400 and "2,499 characters; the limit is 2,000" in answer.json()["error"]


@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_bodies_that_are_no_json_object(server: ServerProcess, body: bytes) -> None:
    answer = server.client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400 and set(answer.json()) == {"error"}


def test_unknown_addresses_and_methods_have_the_same_form(server: ServerProcess) -> None:
    for method, path, status in (("GET", "/translate", 405), ("POST", "/languages", 405), ("GET", "/nothing", 404)):
        answer = server.client.request(method, path)
        assert answer.status_code == status and set(answer.json()) == {"error"}


def test_languages_also_when_the_request_has_a_body(server: ServerProcess) -> None:
    expected = [
        {"code": "en", "name": "English", "targets": ["en", "fr"]},
        {"code": "fr", "name": "French", "targets": ["fr"]},
    ]
    assert server.client.get("/languages").json() == expected
    assert server.client.request("GET", "/languages", data={"api_key": "x"}).json() == expected


def test_detect(server: ServerProcess) -> None:
    for q, language in (("I am a student", "en"), ("je suis étudiant", "fr")):
        for answer in (server.client.post("/detect", json={"q": q}), server.client.post("/detect", data={"q": q})):
            best, other = answer.json()
            assert best["language"] == language and best["confidence"] > 80 > other["confidence"]
    assert server.client.post("/detect").json() == {"error": "Invalid request: missing q parameter"}


def test_settings_health_spec_suggest(server: ServerProcess) -> None:
    settings = server.client.get("/frontend/settings").json()
    assert settings["charLimit"] == 50_000 and settings["keyRequired"] is False
    assert {".txt", ".html", ".srt"} <= set(settings["supportedFilesFormat"])
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    assert server.client.get("/health").json() == {"status": "ok"}
    assert "/translate" in server.client.get("/spec").json()["paths"]
    assert server.client.post("/suggest", json={}).status_code == 403


def upload(server: ServerProcess, name: str, content: bytes) -> Any:
    return server.client.post("/translate_file", files={"file": (name, content)}, data={"source": "en", "target": "fr"})


def test_files(server: ServerProcess, french: dict[str, str]) -> None:
    srt = f"1\n00:00:01,000 --> 00:00:02,000\n{ONE}\n"
    for name, content in (("a b.txt", f"{ONE}\n"), ("page.html", f"<p>{ONE}</p>\n"), ("film.srt", srt)):
        url = upload(server, name, content.encode()).json()["translatedFileUrl"]
        assert url.startswith(f"{server.url}/download_file/")
        answer = server.client.get(url)
        assert answer.text == content.replace(ONE, french[ONE])
        assert answer.headers["content-disposition"].startswith("attachment")


def test_files_that_are_refused(server: ServerProcess) -> None:
    assert upload(server, "a.pdf", b"x").json() == {"error": "Invalid request: file format not supported"}
    assert upload(server, "a.txt", b"\xff\xfe").json() == {"error": "Invalid request: the file is not UTF-8"}
    assert server.client.post("/translate_file", data={"source": "en"}).status_code == 400
    for name in ("nothing", "..%2f..%2fetc%2fpasswd"):
        assert server.client.get(f"/download_file/{name}").status_code == 404
