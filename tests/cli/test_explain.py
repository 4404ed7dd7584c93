"""The commands `explain` and `heads`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from command_line import glassformer

SENTENCE = "The animal didn't cross the street because it was too tired."


def shown(*arguments: str) -> str:
    result = glassformer(["explain", "run", SENTENCE, *arguments])
    assert result.code == 0, result.err
    return result.out


def test_explain_writes_every_file_format(workdir: Path) -> None:
    out = shown("--html", "a.html", "--svg", "a.svg", "--png", "a.png", "--csv", "a.csv", "--npz", "a.npz")
    assert out == ""
    assert "Attention weights" in (workdir / "a.html").read_text(encoding="utf-8")
    assert (workdir / "a.svg").read_text(encoding="utf-8").startswith("<svg ")
    assert (workdir / "a.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader((workdir / "a.csv").read_text(encoding="utf-8").splitlines()))
    with np.load(workdir / "a.npz") as arrays:
        weights_HQK = arrays["decoder.0.cross.weights"]
    assert [float(np.float32(row["weight"])) for row in rows] == weights_HQK.ravel().tolist()


def test_one_kind_layer_and_head(workdir: Path) -> None:
    told = json.loads(shown("--kind", "encoder", "--layer", "0", "--head", "1", "--json", "--target", "Il est là."))
    (attention,) = told["attention"]
    assert (attention["kind"], attention["layer"], list(attention["weights"])) == ("encoder", 0, ["1"])
    assert told["free_running"] is False
    assert "".join(told["written"][:-1]).replace("▁", " ").strip() == "Il est là."
    assert shown("--kind", "encoder", "--head", "1").count("\n") == len(attention["rows"]) + 3


def test_explain_with_interventions(workdir: Path) -> None:
    told = json.loads(shown("--change", "silence=encoder.0.self.1", "--change", "no-positions=encoder", "--json"))
    assert told["change"] == pytest.approx(sum(told["after"]) - sum(told["before"]))
    assert told["change"] != 0
    grid = json.loads(shown("--grid", "--kind", "cross", "--json"))
    assert [len(layer) for layer in grid["change"]] == [2]
    assert "change in log-probability when a head is ablated" in shown("--grid")


def test_explain_compare_and_tree(workdir: Path) -> None:
    assert shown("--next").splitlines()[0].split()[0] == "<sos>"
    settings = workdir / "run/run.toml"  # this run is untrained: decode.guard would decode its repetitive outputs again
    settings.write_text(settings.read_text(encoding="utf-8").replace("guard = true", "guard = false"), encoding="utf-8")
    tree = json.loads(shown("--tree", "--json"))
    best = glassformer(["translate", "run", SENTENCE, "--json"])
    assert tree["finished"][0]["text"] == json.loads(best.out)["translation"]
    compared = json.loads(shown("--compare", "--target", "Il est là.", "--json"))
    assert compared["divergence"] == next(
        i for i, (a, b) in enumerate(zip(compared["given"], compared["own"], strict=False)) if a != b
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--kind", "middle"], ("no kind of attention named 'middle'", "encoder, decoder, cross")),
        (["--head", "7"], ("no head 7", "0 to 1")),
        (["--compare"], ("needs a target", "--target")),
        (["--change", "mute"], ("'mute' is not a valid intervention", "silence=encoder.0.self.2")),
        (["--change", "silence=encoder.4.self.0"], ("encoder.4.self.head_output", "encoder.0.self")),
        (["--change", "force=0:antidisestablishment"], ("not one token", "use one of its tokens")),
    ],
)
def test_wrong_options_are_refused_with_a_hint(workdir: Path, arguments: list[str], says: tuple[str, ...]) -> None:
    result = glassformer(["explain", "run", SENTENCE, *arguments])
    assert result.code == 2
    assert all(words in result.err for words in says), result.err


def test_heads_are_ranked(workdir: Path) -> None:
    told = json.loads(glassformer("heads run --json").out)
    assert {(head["layer"], head["head"]) for head in told["heads"]} == {(0, 0), (0, 1)}
    accuracies = [(head["valid"]["first"] + head["valid"]["second"]) / 2 for head in told["heads"]]
    assert accuracies == sorted(accuracies, reverse=True)
    assert (told["num_valid"], told["num_test"]) == (98, 220)
    assert "chance level" in glassformer("heads run").out
