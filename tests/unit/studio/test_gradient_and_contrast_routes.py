"""Gradients, contrast, embeddings and sampling over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

ASKED = {"run": "phrasebook", "text": "I am a student"}


@pytest.fixture
def trace(visitor: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = visitor.post("/api/traces", json=ASKED).json()
    return found


def test_gradients_are_a_trace_whose_cells_can_be_recomputed(visitor: TestClient, trace: dict[str, Any]) -> None:
    found = visitor.post(f"/api/traces/{trace['id']}/gradient").json()
    assert found["targets"] == trace["written"] and found["loss"] > 0
    checked = [one for one in found["gradients"] if one["difference"] is not None]
    assert len(checked) > 40 and max(one["difference"] for one in checked) < 1e-6
    name = "gradient.decoder.1.cross.scaled_scores"
    where = {"name": name, "at": "0,1,2"}
    cell = visitor.get(f"/api/traces/{found['id']}/cell", params=where).json()
    assert cell["again"] == pytest.approx(cell["value"], abs=1e-9) and "Σ weights·gradient" in cell["says"]
    assert {operand["name"] for operand in cell["operands"]} == {
        "decoder.1.cross.weights", "gradient.decoder.1.cross.weights",
    }  # fmt: skip
    code = visitor.get(f"/api/traces/{found['id']}/recipe", params={"name": name}).json()["numpy"]
    assert "def through_softmax(weights, gradient):" in code
    assert {one["name"] for one in found["parameters"]} >= {"source_embedding.weight_VD"}


def test_the_gradient_through_time_starts_at_the_end_of_the_source(visitor: TestClient, trace: dict[str, Any]) -> None:
    found = visitor.get("/api/gradient-through-time", params=ASKED).json()
    assert found["tokens"] == trace["source"][::-1] and len(found["norms"]) == len(found["tokens"])
    assert all(norm > 0 for norm in found["norms"])


def test_the_contrast_of_two_tokens(visitor: TestClient, trace: dict[str, Any]) -> None:
    best, second = visitor.get(f"/api/traces/{trace['id']}/choices", params={"most": 2}).json()[3]
    pair = {"step": 3, "token": best["token"], "other": second["token"]}
    found = visitor.get(f"/api/traces/{trace['id']}/contrast", params=pair).json()
    assert found["value"] == pytest.approx(found["logits"][0] - found["logits"][1])
    assert sum(share["value"] for share in found["shares"]) == pytest.approx(found["value"], abs=1e-4)
    ablations = visitor.get(f"/api/traces/{trace['id']}/contrast/ablation", params=pair).json()
    assert [one["kind"] for one in ablations] == ["encoder", "decoder", "cross"]


def test_sampling_is_reproducible_and_greedy_with_one_token(visitor: TestClient, trace: dict[str, Any]) -> None:
    def sample(**how: Any) -> str:
        return "".join(visitor.post("/api/sample", json=ASKED | how).json()["pieces"])

    assert sample(k=1) == trace["output"]
    assert sample(temperature=2, seed=3) == sample(temperature=2, seed=3) != sample(temperature=2, seed=4)


def test_nearest_tokens(visitor: TestClient, trace: dict[str, Any]) -> None:
    found = visitor.get(f"/api/traces/{trace['id']}/nearest", params={"side": "decoder", "row": 1}).json()
    assert len(found) == 10 and all(set(one) == {"token", "piece", "similarity"} for one in found)


def test_a_transformer_has_no_recurrent_layers(visitor: TestClient, trace: dict[str, Any]) -> None:
    answer = visitor.get(f"/api/traces/{trace['id']}/recurrent")
    assert answer.status_code == 400 and "recurrent" in answer.json()["what"]
