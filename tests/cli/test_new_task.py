"""The task and the model of docs/extending.md, each defined in one file, work in every command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import bad, good

import glassformer as gf
from glassformer.models import FAMILIES
from glassformer.settings import tasks

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
REVIEWS, RELU_SQUARED = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    exec(REVIEWS, {"__name__": "reviews"})
    lines = [f"{'+' if i % 2 else '-'} {'fine' if i % 2 else 'dull'} film number {i}\n" for i in range(60)]
    Path("train.review").write_text("".join(lines), encoding="utf-8")
    yield tmp_path
    del tasks()["reviews"]


def test_a_new_task_trains_predicts_evaluates_and_explains(folder: Path) -> None:
    sizes = "model.layers=1 model.d_model=16 model.heads=2 model.d_ff=16 tokenizer.vocab=300 model.dropout=0"
    steps = "train.steps=60 train.lr=0.01 train.validate_every=30"
    trained = good(f"train train.review -o run {sizes} {steps}")
    assert "task = reviews  (a .review file has a sign before every text)" in trained.err
    assert 'glassformer predict run "a review"' in trained.out
    assert 'glassformer predict RUN "a review"' in (folder / "run/README.md").read_text(encoding="utf-8")
    assert good(["predict", "run", "fine film", "dull film"]).out == "a good review\na poor review\n"
    assert json.loads(good(["predict", "run", "dull film", "--json"]).out) == {"review": "poor"}
    scores = json.loads(good("evaluate run train.review --json").out)
    assert scores["examples"] == 60 and scores["accuracy"] > 95
    assert "film" in good(["explain", "run", "fine film"]).out
    assert "reviews read" in good("data check train.review").out
    bad(["predict", "run", "fine film", "--top-k", "3"], "task=reviews does not sample", "--top-k")
    bad("train train.review -o other task=reviews model.family=gpt", "cannot be used for task=reviews: use bert")


def test_the_file_of_a_task_runs_as_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "reviews.py").write_text(REVIEWS, encoding="utf-8")
    (tmp_path / "train.review").write_text("+ fine\n- dull\n" * 30, encoding="utf-8")
    command = [sys.executable, "reviews.py", "data", "check", "train.review"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "reviews read" in done.stdout


def test_a_new_model_trains_predicts_and_explains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(FAMILIES, "window", FAMILIES["window"])
    names: dict[str, Any] = {"__name__": "relu_squared"}
    exec(RELU_SQUARED, names)
    Path("text.txt").write_text("".join(f"ba be bi {i % 7}\n" for i in range(90)), encoding="utf-8")
    sizes = "model.family=window model.d_model=8 model.d_hidden=11 tokenizer.kind=characters train.steps=3"
    good(f"train text.txt -o run {sizes} train.validate_every=3")
    assert good(["predict", "run", "ba", "--length", "5"]).out.startswith("ba")
    generator = gf.load("run")
    assert isinstance(generator.model, names["ReluSquaredWindow"])
    trace = generator.trace("ba be")
    hidden = trace["decoder.hidden"].numpy()
    assert hidden.min() >= 0 and np.allclose(trace.recompute("decoder.hidden"), hidden, atol=1e-5)
    _, _, value = trace.entry("decoder.hidden", (2, 3))
    assert np.isclose(value, hidden[2, 3], atol=1e-5)
