"""Our own API: scores, n-best lists, alignment, terms, streams, prediction, models, operations."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from server_process import ServerProcess

ONE, TWO = "I am a student.", "The cat sleeps."


def translate(server: ServerProcess, **given: Any) -> Any:
    answer = server.client.post("/v1/translate", json=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_scores_hypotheses_and_alignment(server: ServerProcess, french: dict[str, str], english_french: Path) -> None:
    from glassformer.inference.translator import load_translator

    answer = translate(server, text=f"{ONE} {TWO}", model="en-fr", n_best=3, alignment=True)
    (translation,) = answer["translations"]
    assert translation["text"] == f"{french[ONE]} {french[TWO]}"
    first, second = translation["sentences"]
    assert (first["source"], second["source"]) == (ONE, TWO)
    (expected,) = load_translator(english_french).translate([ONE])
    found = [first, *first["alternatives"]]
    assert [one["text"] for one in found] == [one.text for one in expected.candidates[:3]]
    assert [one["score"] for one in found] == pytest.approx([one.score for one in expected.candidates[:3]], rel=1e-4)
    for one in found:
        assert all(s < len(ONE.split()) and t < len(one["text"].split()) for s, t in one["alignment"])
    assert [3, 2] in first["alignment"]  # student. – étudiant.
    assert answer["usage"]["sentences"] == 2 and answer["usage"]["source_tokens"] > 5 < answer["usage"]["target_tokens"]


def test_languages_are_detected_by_default(server: ServerProcess, french: dict[str, str]) -> None:
    (translation,) = translate(server, text=[ONE], target="fr")["translations"]
    assert translation["text"] == french[ONE] and translation["detected"]["language"] == translation["source"] == "en"
    assert "alignment" not in translation["sentences"][0]


def test_html_terms_and_placeholders(server: ServerProcess) -> None:
    text = "<p>I am <b>a student</b> of Glassformer, {name}.</p>"
    answer = translate(server, text=text, target="fr", source="en", format="html", do_not_translate=["Glassformer"])
    result = answer["translations"][0]["text"]
    assert result.count("Glassformer") == result.count("{name}") == 1
    assert result.startswith("<p>") and result.endswith("</p>") and "<b>" in result


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"text": ONE}, None),
        ({"text": ONE, "model": "nothing"}, "model"),
        ({"text": ONE, "model": "story"}, "model"),
        ({"text": ONE, "model": "en-fr", "target": "fr"}, "model"),
        ({"text": ONE, "target": "fr", "beam": 17}, "beam"),
        ({"text": ONE, "target": "fr", "beam": 0}, "beam"),
        ({"text": ONE, "target": "fr", "n_best": 17}, "n_best"),
        ({"text": ONE, "target": "fr", "max_length": 9999}, "max_length"),
        ({"text": f"{ONE} {TWO}", "target": "fr", "prefix": "Je"}, "prefix"),
        ({"text": ONE, "target": "fr", "glossary": {str(i): "x" for i in range(201)}}, "glossary"),
        ({"text": ONE, "target": "fr", "format": "pdf"}, "format"),
        ({"text": ONE, "source": "fr"}, "source"),
        ({"text": [[ONE]], "target": "fr"}, "text"),
        ({"target": "fr"}, "text"),
    ],
)
def test_errors_name_the_field(server: ServerProcess, given: dict[str, Any], parameter: str | None) -> None:
    answer = server.client.post("/v1/translate", json=given)
    if given == {"text": ONE}:  # the only translation model is meant
        assert answer.status_code == 200
        return
    error = answer.json()["error"]
    assert (
        answer.status_code in (400, 404) and error["param"] == parameter and error["message"] and "detail" not in error
    )


def test_a_body_that_is_not_marked_as_json_is_refused_with_a_hint(server: ServerProcess) -> None:
    answer = server.client.post(
        "/v1/translate", content=json.dumps({"text": ONE}), headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 400 and "Content-Type: application/json" in answer.json()["error"]["hint"]


def events(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for block in text.strip().split("\n\n"):
        event, data = block.split("\n")
        found.append((event.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_the_stream_sends_sentences_in_order(server: ServerProcess, french: dict[str, str]) -> None:
    answer = server.client.post("/v1/translate/stream", json={"text": f"{ONE} {TWO}", "target": "fr"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    first, second, done = events(answer.text)
    assert (first[0], first[1]["text"], second[1]["text"]) == ("sentence", french[ONE], french[TWO])
    assert done == (
        "done",
        {"text": f"{french[ONE]} {french[TWO]}", "model": "en-fr", "source": "en", "target": "fr"},
    )


def test_greedy_decoding_streams_growing_text(server: ServerProcess) -> None:
    answer = server.client.post("/v1/translate/stream", json={"text": ONE, "target": "fr", "beam": 1})
    found = events(answer.text)
    growing = [data["text"] for event, data in found if event == "partial"]
    assert growing[-1] == found[-1][1]["text"] != ""
    assert all(later.startswith(text) for text, later in pairwise(growing))


def test_stream_refuses_before_it_begins(server: ServerProcess) -> None:
    for given in ({"text": [ONE], "target": "fr"}, {"text": "word " * 500, "target": "fr"}):
        assert server.client.post("/v1/translate/stream", json=given).status_code == 400


def test_predict_gives_what_the_command_prints(server: ServerProcess, other_runs: list[Path]) -> None:
    from glassformer.inference.loading import load

    answer = server.client.post("/v1/predict", json={"model": "reviews", "texts": ["a fine film", "no"]}).json()
    expected = load(other_runs[1]).predict(["a fine film", "no"])
    assert [one["label"] for one in answer["predictions"]] == [one.label for one in expected]
    for given in ({"texts": []}, {"texts": [" "]}, {"model": "story", "texts": ["x"]}):
        assert server.client.post("/v1/predict", json=given).status_code == 400


def test_stop_sequences(server: ServerProcess) -> None:
    asked = {"model": "story", "prompt": "a", "max_tokens": 30, "seed": 3}
    whole = server.client.post("/v1/completions", json=asked).json()["choices"][0]["text"]
    stop = whole[len(whole) // 2 :][:3]
    cut = server.client.post("/v1/completions", json=asked | {"stop": [stop]}).json()["choices"][0]
    assert cut["text"] == whole[: whole.index(stop)] and cut["finish_reason"] == "stop"
    stream = server.client.post("/v1/completions", json=asked | {"stop": stop, "stream": True}).text
    assert stream.endswith("data: [DONE]\n\n")
    pieces = [json.loads(line.removeprefix("data: ")) for line in stream.split("\n\n")[:-2]]
    assert "".join(piece["choices"][0]["text"] for piece in pieces) == cut["text"]
    assert pieces[-1]["choices"][0]["finish_reason"] == "stop"


def test_models_metrics_and_ids(server: ServerProcess) -> None:
    models = {one["id"]: one for one in server.client.get("/v1/models").json()["data"]}
    assert models["en-fr"]["source"] == "en" and models["en-fr"]["address"] == "/v1/translate"
    assert models["story"]["address"] == "/v1/completions" and models["reviews"]["address"] == "/v1/predict"
    answer = server.client.get("/v1/models/reviews", headers={"X-Request-ID": "abc-1"})
    assert answer.headers["x-request-id"] == "abc-1"
    assert server.client.get("/v1/models/reviews", headers={"X-Request-ID": 'a"\x09b'}).headers["x-request-id"] != "abc"
    while not any(line.get("id") == "abc-1" for line in server.events("request")):
        time.sleep(0.02)  # the line is written after the response
    metrics = server.client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'glassformer_requests_total{method="GET",route="/v1/models/{name}",status="200"}' in metrics.text
    assert 'glassformer_sentences_total{model="en-fr"}' in metrics.text


def test_reload_without_keys_from_this_machine(server: ServerProcess, french: dict[str, str]) -> None:
    before = len(server.events("reloaded"))
    assert server.client.post("/v1/models/en-fr/reload").json() == {"model": "en-fr", "reloaded": True}
    while len(server.events("reloaded")) == before:
        time.sleep(0.02)  # the line is read after the response
    assert len(server.events("reloaded")) == before + 1
    assert translate(server, text=ONE, target="fr")["translations"][0]["text"] == french[ONE]
    assert server.client.post("/v1/models/nothing/reload").status_code == 404


def test_terms_are_enforced(server: ServerProcess) -> None:
    """The search must write one of the terms, although the model prefers other words."""
    given = {"text": "I am a student.", "target": "fr", "source": "en"}
    plain = translate(server, **given)["translations"][0]["text"]
    for terms in (["professeur"], ["une voiture", "un livre"]):
        text = translate(server, **given, glossary={"student": terms})["translations"][0]["text"]
        assert any(term in text for term in terms) and not any(term in plain for term in terms)
    unused = translate(server, **given, glossary={"teacher": "professeur"})["translations"][0]["text"]
    assert unused == plain


def test_a_prefix_is_continued(server: ServerProcess) -> None:
    answer = translate(server, text=ONE, target="fr", source="en", prefix="Tu es")
    assert answer["translations"][0]["text"].startswith("Tu es ")
