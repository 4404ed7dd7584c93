"""A task that is defined in this file alone works in every command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import bad, good

from glassformer.data.labelled import LabelledText
from glassformer.data.parallel_text import expand_paths
from glassformer.data.report import DroppedExample
from glassformer.inference.classifier import TextClassifier
from glassformer.inference.run import Run
from glassformer.models.heads import FirstTokenClassifier
from glassformer.planning.sizes import BERT_SIZES, TaskSizes
from glassformer.settings import Paths, tasks
from glassformer.tasks import register
from glassformer.tasks.classification import ClassificationData, ClassificationTask
from glassformer.tasks.spec import TEST, HeldOut, PredictRequest, TaskSpec, common_suffix
from glassformer.text.lines import read_lines


def read_reviews(paths: Paths) -> list[LabelledText]:
    """Read lines such as `+ a fine film`."""
    return [
        LabelledText(line[2:], {"+": "good", "-": "poor"}[line[0]], f"{file}:{number}")
        for file in expand_paths(paths)
        for number, line in enumerate(read_lines(file), 1)
    ]


class ReviewData(ClassificationData):
    name, examples = "reviews", "reviews"
    sizes = TaskSizes("reviews", {"bert": BERT_SIZES})

    def read(self, paths: Paths, split: str) -> tuple[list[LabelledText], list[DroppedExample]]:
        return read_reviews(paths), []


def held_out(run: Run, paths: Paths) -> HeldOut:
    examples = read_reviews(paths)
    return HeldOut(ClassificationTask({TEST: examples}, run.labels, run.tokenizer, run.settings), len(examples))


def predict(predictor: TextClassifier, request: PredictRequest) -> Iterator[str]:
    for text in request.lines():
        label = predictor.predict([text])[0].label
        yield (json.dumps({"review": label}) if request.as_json else f"a {label} review") + "\n"


REVIEWS = TaskSpec(
    name="reviews",
    families=("bert",),
    output="labels",
    head=lambda model: FirstTokenClassifier,
    predictor=lambda run: TextClassifier(run.model, run.tokenizer, run.labels),
    data=ReviewData,
    recognize=lambda files: "a .review file has a sign before every text" if common_suffix(files) == "review" else "",
    held_out=held_out,
    predict=predict,
    usage='glassformer predict {run} "a review"',
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    register(REVIEWS)
    lines = [f"{'+' if i % 2 else '-'} {'fine' if i % 2 else 'dull'} film number {i}\n" for i in range(60)]
    Path("train.review").write_text("".join(lines), encoding="utf-8")
    yield tmp_path
    del tasks()[REVIEWS.name]


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
