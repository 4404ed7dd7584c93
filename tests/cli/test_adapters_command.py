"""`train --from … train.lora` and `adapters`: what they print and write, and that other commands take an adapter."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import bad, good

TRAIN = "train train.fr train.en -o adapter --from run train.lora=2 train.steps=4 train.validate_every=4 --json"

TEST = "--source test.en --reference test.fr --json"


def test_train_list_use_and_merge(workdir: Path) -> None:
    assert "before" in json.loads(good(TRAIN).out)["forgetting"]
    assert json.loads(good("adapters list run --json").out)["rank"] == 2
    assert good("adapters list run").out.startswith("adapter  rank 2")
    assert "an adapter of the run run" in good("info adapter").out
    good("adapters merge adapter -o merged")
    for command in ("translate {} hello", "explain {} hello"):
        assert good(command.format("adapter")).out == good(command.format("merged")).out
    scores = [json.loads(good(f"evaluate {run} {TEST}").out) for run in ("adapter", "merged")]
    assert scores[0]["chrf"] == scores[1]["chrf"]
    assert "The output folder exists" in bad("adapters merge adapter -o merged").err
    assert "itself an adapter" in bad("train train.en train.fr -o x --from adapter train.lora=2").err
