"""Two runs beside each other: numbers that are counted or logged, probabilities that follow from logits."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

import glassformer as gf
from glassformer.studio.app import studio

HERE = "http://127.0.0.1:8000"


def test_a_run_in_numbers(small_runs: dict[str, Path]) -> None:
    client = TestClient(studio([small_runs["transformer"], small_runs["gru"]]), base_url=HERE)
    events = [json.loads(line) for line in (small_runs["gru"] / "log.jsonl").read_text().splitlines()]
    found = client.get("/api/numbers", params={"run": "gru"}).json()
    assert found["weights"] == next(event["parameters"] for event in events if event["event"] == "started")
    assert found["steps"] == 20 and found["seconds"] > 0
    tested = next(event for event in events if event["event"] == "tested")
    assert found["scores"][tested["split"]] == tested["scores"]
    assert found["scores"]["validation"] == [e for e in events if e["event"] == "validated"][-1]["scores"]


def test_a_run_without_a_log_says_so(visitor: TestClient) -> None:
    found = visitor.get("/api/numbers", params={"run": "phrasebook"}).json()
    assert found["weights"] > 0 and (found["steps"], found["seconds"], found["scores"]) == (None, None, {})


def test_every_token_that_was_written_and_its_probability(visitor: TestClient, run: Path) -> None:
    outline = visitor.post("/api/traces", json={"run": "phrasebook", "text": "I am a student"}).json()
    found = visitor.get(f"/api/traces/{outline['id']}/written").json()
    candidate = gf.load(run).translate(["I am a student"], beam=1)[0].candidates[0]
    assert [token["piece"] for token in found] == [*outline["target"][1:], "<eos>"]
    assert sum(token["log_probability"] for token in found) == pytest.approx(candidate.log_probability, abs=1e-4)
    answer = visitor.get(f"/api/traces/{outline['id']}/values", params={"name": "logits", "at": "0"})
    logits = np.frombuffer(answer.content, "<f4").astype(float)
    token = gf.load(run).tokenizer.encode(outline["output"])[0]
    expected = logits[token] - math.log(np.exp(logits).sum())
    assert found[0]["log_probability"] == pytest.approx(expected, abs=1e-5)


def test_a_given_target_ends_where_it_ends(visitor: TestClient) -> None:
    question = {"run": "phrasebook", "text": "I am a student", "target": "Je"}
    outline = visitor.post("/api/traces", json=question).json()
    found = visitor.get(f"/api/traces/{outline['id']}/written").json()
    assert "".join(token["piece"] for token in found) == "▁Je<eos>"
    assert found[-1]["log_probability"] < math.log(0.5)  # it would have gone on


def test_weights_that_are_not_there_yet(small_runs: dict[str, Path], tmp_path: Path) -> None:
    young = shutil.copytree(small_runs["gru"], tmp_path / "young")
    for name in ("model.safetensors", "README.md"):
        (young / name).unlink()
    answer = TestClient(studio([young]), base_url=HERE).post("/api/traces", json={"run": "young", "text": "I am"})
    assert answer.status_code == 400 and answer.json()["what"] == "This run has no weights yet."
