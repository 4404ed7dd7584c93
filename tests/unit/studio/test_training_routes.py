"""How a run was trained: its log as it grows, and a sentence through its checkpoints."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from glassformer.inference.run import load_run
from glassformer.inference.run_folder import RunFolder
from glassformer.inference.translator import Translator
from glassformer.studio import training_log
from glassformer.studio.app import studio
from glassformer.studio.checkpoint_views import CheckpointViews, list_checkpoints
from glassformer.studio.model_store import ModelStore
from glassformer.studio.tracing import TraceRequest
from glassformer.training.events import LogFile, Note, Progress

HERE = "http://127.0.0.1:8000"
TEXT = "The cat is small."


@pytest.fixture
def trained(small_runs: dict[str, Path], tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(small_runs["transformer"], tmp_path / "transformer"))


@pytest.fixture
def client(trained: Path) -> Iterator[TestClient]:
    with TestClient(studio([trained]), base_url=HERE) as client:
        yield client


def log(client: TestClient, start: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/log", params={"run": "transformer", "start": start}).json()
    return found


def progress(step: int, loss: float = 1.5) -> Progress:
    return Progress(step=step, epoch=0, loss=loss, lr=0.1, gradient_norm=2.0, tokens_per_second=7.0)


def test_the_log_is_sent_as_it_was_written(client: TestClient, trained: Path) -> None:
    found = log(client)
    events = [json.loads(line) for line in (trained / "log.jsonl").read_text().splitlines()]
    of_progress = [event for event in events if event["event"] == "progress"]
    for name in ("step", "loss", "lr", "gradient_norm"):
        assert found["progress"][name] == [event[name] for event in of_progress]
    others = [{**event, "line": line} for line, event in enumerate(events) if event["event"] != "progress"]
    assert found["events"] == others
    assert sorted([*found["progress"]["line"], *(event["line"] for event in others)]) == list(range(len(events)))
    assert [one["step"] for one in found["checkpoints"]] == [10, 20]
    assert not found["more"] and not found["anew"]


def test_the_log_is_followed(client: TestClient, trained: Path) -> None:
    place = log(client)["next"]
    assert log(client, place)["events"] == []
    write = LogFile(trained / "log.jsonl")
    write(progress(30))
    write(Note("more"))
    with (trained / "log.jsonl").open("a") as file:
        file.write('{"event": "note", "te')  # not whole yet
    found = log(client, place)
    assert found["progress"]["step"] == [30] and [event["text"] for event in found["events"]] == ["more"]
    with (trained / "log.jsonl").open("a") as file:
        file.write('xt": "whole"}\n')
    assert [event["text"] for event in log(client, found["next"])["events"]] == ["whole"]


def test_a_log_that_was_begun_anew(client: TestClient, trained: Path) -> None:
    place = log(client)["next"]
    (trained / "log.jsonl").write_text("")
    LogFile(trained / "log.jsonl")(progress(1))
    found = log(client, place)
    assert found["anew"] and found["progress"]["step"] == [1]
    (trained / "log.jsonl").unlink()
    gone = log(client, found["next"])
    assert gone["anew"] and gone["age"] is None and gone["events"] == []


def test_a_long_log_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_log, "MAX_BYTES", 500)
    write = LogFile(tmp_path / "log.jsonl")
    for step in range(20):
        write(progress(step))
    steps, place, more = [], 0, True
    while more:
        found = training_log.follow(tmp_path / "log.jsonl", place)
        steps += found["progress"]["step"]
        place, more = found["next"], found["more"]
    assert steps == list(range(20))


def test_what_is_no_number_and_what_is_no_event(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    LogFile(file)(progress(1, loss=float("nan")))
    file.write_text(file.read_text() + "broken\n[1]\n{}\n")
    found = training_log.follow(file, 0)
    assert found["progress"]["loss"] == [None] and found["events"] == []
    json.dumps(found, allow_nan=False)


def test_a_frame_is_what_the_checkpoint_computes(client: TestClient, trained: Path) -> None:
    target = "Le chat est petit."
    question = {"run": "transformer", "step": 10, "text": TEXT, "target": target}
    frame = client.get("/api/frame", params=question).json()
    run = load_run(trained, weights=trained / "checkpoints" / "step-10" / "model.safetensors")
    then = Translator(run.model, run.tokenizer, run.settings.decode)
    trace = then.trace(TEXT, target)
    assert frame["output"] == then.translate([TEXT], beam=1)[0].text
    assert (frame["source"], frame["predicted"]) == (trace.source, trace.predicted)
    tokens = [*then.tokenizer.encode(target), 2]
    expected = sum(float(trace.log_probabilities()[i, token]) for i, token in enumerate(tokens))
    assert frame["log_probability"] == pytest.approx(expected, abs=1e-4)
    name = frame["looks"]["cross"]["names"][1]
    answer = client.get("/api/frame/weights", params=question | {"name": name, "head": 2})
    weights = np.frombuffer(answer.content, "<f4").reshape([int(n) for n in answer.headers["x-shape"].split(",")])
    assert np.allclose(weights, trace[name][2].numpy(), atol=1e-6)
    later = client.get("/api/frame/weights", params=question | {"step": 20, "name": name, "head": 2})
    assert not np.allclose(weights.ravel(), np.frombuffer(later.content, "<f4"), atol=1e-3)


def test_a_checkpoint_that_is_gone(client: TestClient, trained: Path) -> None:
    answer = client.get("/api/frame", params={"run": "transformer", "step": 7, "text": TEXT})
    assert answer.status_code == 400 and "no checkpoint of step 7" in answer.json()["what"]
    shutil.rmtree(trained / "checkpoints")
    assert list_checkpoints(RunFolder(trained)) == []


def test_checkpoint_views_are_bounded_and_keeps_no_models(trained: Path) -> None:
    store, folder = ModelStore([trained]), RunFolder(trained)
    run, views = store.load("transformer"), CheckpointViews(max_bytes=1)
    asked = TraceRequest("transformer", TEXT, "Le chat")
    frames = [views.view(run, folder, asked, step) for step in (10, 20)]
    assert len(views) == 1
    assert views.view(run, folder, asked, 20) is frames[1]
    assert all(name.endswith("weights") for frame in frames for name in frame.trace.tensors)


def test_checkpoint_views_of_a_recurrent_network(small_runs: dict[str, Path]) -> None:
    client = TestClient(studio([small_runs["plain"]]), base_url=HERE)
    question = {"run": "plain", "step": 20, "text": TEXT, "target": "Le chat"}
    frame = client.get("/api/frame", params=question).json()
    assert frame["looks"] == {} and frame["log_probability"] < 0
