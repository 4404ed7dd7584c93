"""What the page asks for, asked as the page does: real numbers of a real run, and a clear answer to what is wrong."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import glassformer as gf
from glassformer.glass.prediction import with_prediction
from glassformer.studio.app import studio
from glassformer.text.tokenizer import EOS

SENTENCE = "The animal didn't cross the street because it was too tired."


def asked(client: TestClient, **question: Any) -> dict[str, Any]:
    answer = client.post("/api/traces", json={"run": "phrasebook", "text": SENTENCE} | question)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def numbers(client: TestClient, trace: str, name: str, at: str = "") -> Any:
    answer = client.get(f"/api/traces/{trace}/values", params={"name": name, "at": at})
    assert answer.status_code == 200, answer.text
    shape = [int(n) for n in answer.headers["x-shape"].split(",") if n]
    return np.frombuffer(answer.content, "<f4").reshape(shape)


def test_the_runs_are_described(visitor: TestClient) -> None:
    (run,) = visitor.get("/api/runs").json()
    assert (run["name"], run["task"], run["family"]) == ("phrasebook", "translation", "transformer")
    assert "2+2 layers, width 48" in run["described"]


def test_two_runs_of_one_name_are_told_apart(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "elsewhere" / "phrasebook")
    client = TestClient(studio([run, other]), base_url="http://localhost")
    assert [one["name"] for one in client.get("/api/runs").json()] == ["phrasebook", "phrasebook-2"]


def test_a_sentence_is_translated_and_traced(visitor: TestClient, run: Path) -> None:
    found, translator = asked(visitor), gf.load(run)
    assert found["mode"] == "own"
    assert found["output"] == translator.translate([SENTENCE], beam=1)[0].text
    trace = translator.trace(SENTENCE, found["output"])
    assert (found["source"], found["target"], found["predicted"]) == (trace.source, trace.target, trace.predicted)
    shown = with_prediction(trace).tensors
    assert found["tensors"] == {name: list(tensor.shape) for name, tensor in shown.items()}
    for name, at in (
        ("encoder.1.self.weights", "2"),
        ("decoder.0.cross.scores", "1,3"),
        ("logits", "0"),
        ("logits", ""),
    ):
        expected = trace[name][tuple(int(i) for i in at.split(",")) if at else ()].numpy()
        assert np.array_equal(numbers(visitor, found["id"], name, at), expected)
    cell = numbers(visitor, found["id"], "decoder.0.cross.weights", "0,1,2")
    assert cell.shape == () and cell == trace["decoder.0.cross.weights"][0, 1, 2].item()


def test_colours_are_bytes_of_the_weights(visitor: TestClient) -> None:
    found = asked(visitor)
    for kind, layers in (("encoder", 2), ("decoder", 2), ("cross", 2)):
        answer = visitor.get(f"/api/traces/{found['id']}/weights", params={"kind": kind})
        shape = [int(n) for n in answer.headers["x-shape"].split(",")]
        colours = np.frombuffer(answer.content, np.uint8).reshape(shape)
        exact = np.stack([numbers(visitor, found["id"], name) for name in found["looks"][kind]["names"]])
        assert shape[:2] == [layers, 4] and colours.shape == exact.shape
        assert np.abs(colours / 255 - exact).max() <= 0.5 / 255 + 1e-6


def test_an_outline_is_small(visitor: TestClient) -> None:
    answer = visitor.post("/api/traces", json={"run": "phrasebook", "text": SENTENCE})
    assert len(answer.content) < 40_000


def test_a_given_target_is_read(visitor: TestClient) -> None:
    found = asked(visitor, text="I am a student", target="Je suis médecin")
    assert (found["mode"], found["output"]) == ("given", "Je suis médecin")


def test_a_token_is_forced_and_the_rest_follows(visitor: TestClient) -> None:
    free = asked(visitor, free=True)
    assert free["mode"] == "free"
    choices = visitor.get(f"/api/traces/{free['id']}/choices").json()
    assert [step[0]["piece"] for step in choices] == free["predicted"]
    other = choices[1][1]
    forced = asked(visitor, free=True, forced={"1": other["token"]})
    assert forced["written"][0] == free["written"][0]
    assert forced["written"][1] == other["piece"] != free["written"][1]


def test_a_forced_end_is_what_was_written(visitor: TestClient, run: Path) -> None:
    free = asked(visitor, free=True)
    forced = asked(visitor, free=True, forced={"1": EOS})
    assert forced["written"] == [free["written"][0], "<eos>"] and forced["predicted"][1] != "<eos>"
    log_probability = gf.load(run).trace(SENTENCE, forced={1: EOS}).log_probabilities()[1, EOS].item()
    written = visitor.get(f"/api/traces/{forced['id']}/written").json()
    assert written[1] == {"piece": "<eos>", "log_probability": pytest.approx(log_probability, abs=1e-4)}
    last = visitor.get(f"/api/traces/{forced['id']}/lens").json()[-1]
    assert last["log_probabilities"][1] == pytest.approx(log_probability, abs=1e-4) and last["ranks"][1] > 1
    masked = visitor.post(f"/api/traces/{forced['id']}/masked", json={}).json()
    assert masked["written"] == forced["written"]


def test_a_beam_is_a_tree(visitor: TestClient) -> None:
    found = asked(visitor)
    tree = visitor.get(f"/api/traces/{found['id']}/tree", params={"beam": 3}).json()
    assert tree["beam"] == 3 and tree["nodes"][0]["parent"] == -1
    assert all(tree["nodes"][node["parent"]]["step"] == node["step"] - 1 for node in tree["nodes"][1:])
    wrong = visitor.get(f"/api/traces/{found['id']}/tree", params={"beam": 99})
    assert wrong.status_code == 400 and "1 to 8" in wrong.json()["hint"]


def test_training_beside_use(visitor: TestClient) -> None:
    question = {"run": "phrasebook", "text": "I am a student", "target": "Je mange"}
    both = visitor.post("/api/compare-teacher-forcing", json=question).json()
    given = [*both["forced"]["target"][1:], both["forced"]["predicted"][-1]]
    step = both["divergence"]
    assert given[:step] == both["free"]["written"][:step] and given[step] != both["free"]["written"][step]


def test_a_weight_is_the_matrix_of_its_formula(visitor: TestClient, run: Path) -> None:
    found, name = asked(visitor), "encoder.0.self.query"
    recipe = visitor.get(f"/api/traces/{found['id']}/recipe", params={"name": name}).json()
    assert [(weight["symbol"], weight["shape"]) for weight in recipe["weights"]] == [("W_Q", [48, 48]), ("b_Q", [48])]
    answer = visitor.get(f"/api/traces/{found['id']}/weight", params={"name": name, "role": "weight"})
    weight = np.frombuffer(answer.content, "<f4").reshape(48, 48)
    trace = gf.load(run).trace(SENTENCE, found["output"])
    heads, tokens, width = trace[name].shape
    bias = visitor.get(f"/api/traces/{found['id']}/weight", params={"name": name, "role": "bias"}).content
    product = trace["encoder.input"].numpy() @ weight + np.frombuffer(bias, "<f4")
    assert np.allclose(product.reshape(tokens, heads, width).swapaxes(0, 1), trace[name].numpy(), atol=1e-5)
    cell = visitor.get(f"/api/traces/{found['id']}/cell", params={"name": name, "at": "1,2,3"}).json()
    symbols = [operand["symbol"] for operand in cell["operands"]]
    assert symbols == [None, f"W_Q[:, {width + 4}]", f"b_Q[{width + 4}]"]
    refused = visitor.get(f"/api/traces/{found['id']}/weight", params={"name": name, "role": "table"})
    assert refused.status_code == 400


def test_the_largest_probabilities_have_words(visitor: TestClient, run: Path) -> None:
    found = asked(visitor)
    given = {"name": "probabilities", "most": 2}
    columns = visitor.get(f"/api/traces/{found['id']}/probable", params=given).json()
    likely = gf.load(run).trace(SENTENCE, found["output"]).next_tokens(2)
    assert set(columns["tokens"]) == {choice.piece for step in likely for choice in step}
    first = columns["values"][0][columns["columns"].index(likely[0][0].token)]
    assert first == pytest.approx(likely[0][0].probability, rel=1e-5)
    cell = visitor.get(f"/api/traces/{found['id']}/cell", params={"name": "logits", "at": f"0,{likely[0][0].token}"})
    assert cell.json()["column"] == likely[0][0].piece
    refused = visitor.get(f"/api/traces/{found['id']}/probable", params={"name": "encoder.input"})
    assert refused.status_code == 400


def test_a_recipe_is_a_program_that_gives_the_numbers(
    visitor: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(visitor, text="I am a student")
    name = "decoder.0.cross.scores"
    recipe = visitor.get(f"/api/traces/{found['id']}/recipe", params={"name": name}).json()
    assert recipe["formula"] == "Q·Kᵀ" and recipe["parents"] == ["decoder.0.cross.query", "decoder.0.cross.key"]
    monkeypatch.chdir(tmp_path)
    np.savez("trace.npz", **{parent: numbers(visitor, found["id"], parent) for parent in recipe["parents"]})
    scope: dict[str, Any] = {}
    exec(recipe["numpy"], scope)
    scope["trace"].close()
    assert np.allclose(scope["result"], numbers(visitor, found["id"], name), atol=1e-5)


def test_a_cell_comes_with_its_operands(visitor: TestClient) -> None:
    found = asked(visitor, text="I am a student")
    where = {"name": "encoder.0.self.scores", "at": "1,2,0"}
    cell = visitor.get(f"/api/traces/{found['id']}/cell", params=where).json()
    query, key = (operand["values"] for operand in cell["operands"])
    assert cell["says"] == "Σ query·key"
    assert np.float32(cell["value"]) == numbers(visitor, found["id"], where["name"], where["at"])
    assert cell["value"] == pytest.approx(np.dot(query, key), abs=1e-4)


# ------------------------------------------------------------------------------------------ what is wrong


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"text": ""}, "0 tokens"),
        ({"text": "   "}, "0 tokens"),
        ({"text": "word " * 10_000}, "too long: 50,000 characters"),
        ({"text": "word " * 900}, "too long"),
        ({"text": "word", "target": "mot " * 900}, "too long"),
        ({"run": "another", "text": "word"}, "not started with this run"),
    ],
    ids=["empty", "blank", "10,000 words", "too many tokens", "too long a target", "another run"],
)
def test_what_cannot_be_looked_at_is_said(visitor: TestClient, question: dict[str, str], said: str) -> None:
    answer = visitor.post("/api/traces", json={"run": "phrasebook"} | question)
    assert answer.status_code == 400
    assert said in answer.json()["what"] and answer.json()["hint"]


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "😀 🙂 👩‍👩‍👧", "가나다", "\u202eleft", "a\x00b"])
def test_any_text_is_traced_as_text(visitor: TestClient, text: str) -> None:
    assert asked(visitor, text=text)["text"] == text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("values?name=nothing", 400, "no such tensor"),
        ("values?name=logits&at=999", 400, "999 is out of range"),
        ("values?name=logits&at=-1", 400, "-1 is out of range"),
        ("values?name=logits&at=x", 400, "not indices"),
        ("cell?name=logits&at=0", 400, "2 indices"),
        ("weights?kind=question", 400, "no question attention"),
        ("weights", 422, "Invalid request"),
    ],
)
def test_a_wrong_question_about_a_trace(visitor: TestClient, path: str, status: int, said: str) -> None:
    answer = visitor.get(f"/api/traces/{asked(visitor)['id']}/{path}")
    assert answer.status_code == status and said in answer.json()["what"]


def test_a_run_that_is_deleted_while_it_is_open(visitor: TestClient, run: Path) -> None:
    found = asked(visitor)
    shutil.rmtree(run)
    answer = visitor.post("/api/traces", json={"run": "phrasebook", "text": SENTENCE})
    assert (
        answer.status_code == 400 and "moved or deleted" in answer.json()["what"] and str(run) in answer.json()["where"]
    )
    assert visitor.get("/api/runs").json() == []
    assert numbers(visitor, found["id"], "logits").size  # what was traced before can still be looked at


def test_a_run_that_was_trained_further_is_loaded_again(visitor: TestClient, run: Path) -> None:
    from glassformer.inference.run import read_weights, save_weights

    before = asked(visitor)
    weights = read_weights(run / "model.safetensors")
    save_weights(run / "model.safetensors", {name: weight * 0.5 for name, weight in weights.items()})
    os.utime(run / "model.safetensors", ns=(1, 1))
    after = asked(visitor)
    first, second = (numbers(visitor, one["id"], "encoder.vectors") for one in (before, after))
    assert np.array_equal(first * np.float32(0.5), second)
