"""What would have happened if, asked as the page does: the very numbers that the library gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import glassformer as gf
from glassformer.glass.interventions import CutResidual, ForceToken, RemoveMask, RemovePositions, SetRow, Silence
from glassformer.studio.app import studio

HERE = "http://127.0.0.1:8000"
SENTENCE = "The animal didn't cross the street because it was too tired."


def asked(client: TestClient, *changes: str, text: str = SENTENCE, **more: Any) -> Any:
    question = {"run": "phrasebook", "text": text, "changes": list(changes)} | more
    return client.post("/api/effect", json=question)


@pytest.mark.parametrize(
    ("written", "change"),
    [
        ("silence=encoder.1.self.2", Silence("encoder.1.self", 2)),
        ("cut=encoder.0.ff", CutResidual("encoder.0.ff")),
        ("no-mask", RemoveMask()),
        ("no-positions=encoder", RemovePositions("encoder")),
        ("force=1:300", ForceToken(1, 300)),
    ],
)
def test_a_change_has_its_effect(visitor: TestClient, run: Path, written: str, change: Any) -> None:
    found, translator = asked(visitor, written).json(), gf.load(run)
    effect = translator.effect(SENTENCE, [change])
    assert (found["written"], found["before"]) == (effect.written, effect.before)
    assert found["after"] == effect.after and found["change"] == pytest.approx(effect.change)
    assert found["outputs"]["after"]["text"] == translator.tokenizer.decode(effect.output_after)
    assert found["outputs"]["before"]["pieces"] == translator.tokenizer.pieces(effect.output_before)


def test_changes_add_up_and_a_row_is_edited(visitor: TestClient, run: Path) -> None:
    translator = gf.load(run)
    columns = len(translator.trace("I am a student").source)
    row = [1.0, *[0.0] * (columns - 1)]
    written = f"row=decoder.0.cross.1.0:{','.join(map(str, row))}"
    found = asked(visitor, "silence=decoder.1.cross.0", written, text="I am a student").json()
    changes = [Silence("decoder.1.cross", 0), SetRow("decoder.0.cross", 1, 0, tuple(row))]
    assert found["after"] == translator.effect("I am a student", changes).after


def test_the_grid_of_all_heads(visitor: TestClient, run: Path) -> None:
    question = {"run": "phrasebook", "text": SENTENCE, "kind": "cross"}
    found = visitor.post("/api/ablate-heads", json=question).json()
    expected = gf.load(run).ablate_heads(SENTENCE, kind="cross")
    assert found["change"] == expected.change and found["log_probability"] == expected.log_probability
    assert [len(layer) for layer in found["change"]] == [4, 4]


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ([], 422, "Invalid request"),
        (["nonsense"], 400, "'nonsense' is not a valid intervention"),
        (["silence=encoder.9.self.0"], 400, "computes no tensor named"),
        (["silence=encoder.0.self.9"], 400, "has no head 9"),
        (["force=0:999999"], 400, "not a valid intervention"),
        (["row=decoder.0.cross.0.0:nan,1"], 400, "not attention weights for decoder.0.cross.weights"),
        (["row=encoder.0.self.0.0:nan,0,0,0,0"], 400, ": nan, 0"),
        (["cut"] * 65, 422, "Invalid request"),
    ],
)
def test_what_cannot_be_changed_is_said(visitor: TestClient, changes: list[str], status: int, said: str) -> None:
    answer = asked(visitor, *changes, text="I am a student")
    assert answer.status_code == status and said in answer.json()["what"]


def test_a_recurrent_network_is_changed_too_but_has_no_grid(small_runs: dict[str, Path]) -> None:
    client = TestClient(studio([small_runs["gru"]]), base_url=HERE)
    found = asked(client, "silence=decoder.cross.0", run="gru").json()
    assert found["after"] == gf.load(small_runs["gru"]).effect(SENTENCE, [Silence("decoder.cross", 0)]).after
    grid = client.post("/api/ablate-heads", json={"run": "gru", "text": SENTENCE, "kind": "cross"})
    assert grid.status_code == 400 and "no cross attention heads" in grid.json()["what"]
    wrong = client.post("/api/ablate-heads", json={"run": "gru", "text": SENTENCE, "kind": "sideways"})
    assert wrong.status_code == 400 and "attention named sideways" in wrong.json()["what"]
