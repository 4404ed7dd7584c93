"""The worked example of the study notes, number for number, and matrices that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from glassformer.studio.app import studio

NOTES = {
    "x": "1 0 1 0\n0 2 0 2\n1 1 1 1",
    "W_Q": "[[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]]",
    "W_K": "0,0,1;1,1,0;0,1,0;1,1,0",
    "W_V": "0\t2\t0\n0\t3\t0\n1\t0\t3\n1\t1\t0",
}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(studio([]), base_url="http://127.0.0.1:8000")


def worked(client: TestClient, **changes: Any) -> dict[str, Any]:
    answer = client.post("/api/worked-example", json=NOTES | changes)
    assert answer.status_code == 200, answer.text
    return {step["name"]: step for step in answer.json()["steps"]}


def test_the_example_of_the_notes(client: TestClient) -> None:
    steps = worked(client)
    assert list(steps) == ["Q", "K", "V", "scores", "scaled_scores", "weights", "output"]
    assert steps["Q"]["values"] == [[1, 0, 2], [2, 2, 2], [2, 1, 3]]
    assert steps["K"]["values"] == [[0, 1, 1], [4, 4, 0], [2, 3, 1]]
    assert steps["V"]["values"] == [[1, 2, 3], [2, 8, 0], [2, 6, 3]]
    assert steps["scores"]["values"] == [[2, 4, 4], [4, 16, 12], [4, 12, 10]]
    assert np.allclose(steps["scaled_scores"]["values"], np.array(steps["scores"]["values"]) / 3**0.5)
    expected = [[1.8639, 6.3194, 1.7042], [1.9991, 7.8141, 0.2735], [1.9926, 7.4796, 0.7359]]
    assert np.allclose(steps["output"]["values"], expected, atol=6e-5)


def test_without_scaling_and_with_rounded_weights(client: TestClient) -> None:
    steps = worked(client, scaled=False, decimals=1)
    assert "scaled_scores" not in steps
    assert np.allclose(steps["weights"]["values"][0], [0.06338, 0.46831, 0.46831], atol=6e-6)
    assert steps["rounded_weights"]["values"] == [[0.1, 0.5, 0.5], [0, 1, 0], [0, 0.9, 0.1]]
    assert np.allclose(steps["output"]["values"][1:], [[2, 8, 0], [2, 7.8, 0.3]])


def test_the_operands_of_a_cell(client: TestClient) -> None:
    steps = worked(client)
    assert steps["Q"]["cells"][1][2] == [
        {"matrix": "x", "row": 1, "column": None},
        {"matrix": "W_Q", "row": None, "column": 2},
    ]
    assert steps["scores"]["cells"][1][2] == [
        {"matrix": "Q", "row": 1, "column": None},
        {"matrix": "K", "row": 2, "column": None},
    ]
    assert steps["weights"]["cells"][2][0] == [{"matrix": "scaled_scores", "row": 2, "column": None}]
    assert steps["scaled_scores"]["cells"][2][0] == [{"matrix": "scores", "row": 2, "column": 0}]
    assert steps["output"]["cells"][0][1] == [
        {"matrix": "weights", "row": 0, "column": None},
        {"matrix": "V", "row": None, "column": 1},
    ]


def test_encoder_decoder_attention(client: TestClient) -> None:
    steps = worked(client, memory="1 0 1 0\n0 1 0 1")
    assert steps["K"]["formula"] == "memory·W_K" and steps["K"]["operands"] == ["memory", "W_K"]
    assert np.shape(steps["weights"]["values"]) == (3, 2)
    assert np.allclose(np.sum(steps["weights"]["values"], axis=1), 1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"x": " , "}, "x is empty."),
        ({"x": "1 0 a 0"}, "“a” in x is not a number up to a million."),
        ({"x": "1 0 nan 0"}, "“nan” in x"),
        ({"x": "1e9 0 0 0"}, "“1e9” in x"),
        ({"x": "1 0 1 0\n0 2 0"}, "Row 2 of x has 3 numbers, but row 1 has 4."),
        ({"x": "1 0 1"}, "W_Q has 4 rows, but x has 3 columns."),
        ({"memory": "1 0 1"}, "W_K has 4 rows, but memory has 3 columns."),
        ({"W_K": "1;1;1;1"}, "W_Q has 3 columns, but W_K has 1."),
        ({"x": "1 " * 9}, "x has too many numbers."),
        ({"x": "0 " * 1500}, "x has too many numbers."),
        ({"decimals": 99}, "The number of decimals cannot be 99."),
    ],
)
def test_what_does_not_fit_is_explained(client: TestClient, changes: dict[str, Any], said: str) -> None:
    answer = client.post("/api/worked-example", json=NOTES | changes)
    assert answer.status_code == 400 and said in answer.json()["what"] and answer.json()["hint"]
