"""Small models learn extractive question answering in seconds."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import glassformer as gf

NAMES = ["Ana", "Ben", "Cho", "Dia", "Eli", "Fay"]
COLOURS = ["red", "blue", "green", "white", "black", "brown"]
FILLERS = ["the river runs south .", "nobody knows why .", "it often rains there .", "people like it ."]


def paragraph(dice: random.Random) -> dict[str, object]:
    """A text about two people, and a question about one of them."""
    people = dice.sample(NAMES, 2)
    facts = [(name, dice.choice(["town", "year"]), str(dice.randint(1000, 1999))) for name in people]
    parts = [f"{name} was born in {what} {value} ." for name, what, value in facts] + dice.sample(FILLERS, 2)
    dice.shuffle(parts)
    text = " ".join(parts)
    name, what, value = facts[0]
    return {
        "context": text,
        "qas": [
            {
                "question": f"in which {what} was {name} born ?",
                "answers": [{"text": value, "answer_start": text.index(value)}],
            }
        ],
    }


@pytest.mark.learns
def test_a_gru_learns_to_find_the_answer(tmp_path: Path) -> None:
    dice = random.Random(1)
    data = {"data": [{"paragraphs": [paragraph(dice) for _ in range(600)]}]}
    (tmp_path / "qa.json").write_text(json.dumps(data), encoding="utf-8")
    settings = {
        "model.d_model": 32,
        "model.dropout": 0.0,
        "train.batch_tokens": 1024,
        "train.steps": 250,
        "train.warmup": 20,
        "train.lr": 1e-2,
        "train.validate_every": 125,
        "train.average": 1,
        "tokenizer.vocab": 400,
    }
    run = gf.train(str(tmp_path / "qa.json"), out=tmp_path / "run", settings=settings)
    scores = run.scores["valid"].scores
    assert scores["exact_match"] >= 85 and scores["f1"] > scores["baseline_f1"] + 20
    answerer = gf.load(run.path)
    text = "Ana was born in year 1234 . nobody knows why . Ben was born in town 1777 ."
    assert answerer("in which town was Ben born ?", text) == "1777"
    (found,) = answerer.predict([("in which year was Ana born ?", text)])
    assert text[found.start : found.end] == found.answer == "1234"
    assert 0 < found.probability <= 1
    trace = answerer.trace("in which year was Ana born ?", text)
    assert trace.answer == "1234" and trace["question.weights"].shape[1] == len(trace.source)


def liking(dice: random.Random) -> dict[str, object]:
    """Three people and what they like, and a question about one of them; without it, accuracy is a third."""
    people, colours = dice.sample(NAMES, 3), dice.sample(COLOURS, 3)
    text = " ".join(f"{name} likes {colour} ." for name, colour in zip(people, colours, strict=True))
    asked = dice.randrange(3)
    answer = {"text": colours[asked], "answer_start": text.index(colours[asked])}
    return {"context": text, "qas": [{"question": f"what likes {people[asked]} ?", "answers": [answer]}]}


@pytest.mark.learns
def test_bert_learns_to_use_the_question(tmp_path: Path) -> None:
    dice = random.Random(1)
    data = {"data": [{"paragraphs": [liking(dice) for _ in range(800)]}]}
    (tmp_path / "qa.json").write_text(json.dumps(data), encoding="utf-8")
    settings = {
        "model.family": "bert",
        "model.layers": 2,
        "model.d_model": 32,
        "model.heads": 2,
        "model.d_ff": 64,
        "model.dropout": 0.0,
        "train.batch_tokens": 1024,
        "train.steps": 400,
        "train.warmup": 20,
        "train.lr": 5e-3,
        "train.validate_every": 100,
        "train.average": 1,
        "tokenizer.vocab": 400,
    }
    run = gf.train(str(tmp_path / "qa.json"), out=tmp_path / "run", settings=settings)
    assert run.scores["valid"].scores["exact_match"] >= 85
    answerer, text = gf.load(run.path), "Fay likes red . Ben likes green . Dia likes black ."
    assert [answerer(f"what likes {name} ?", text) for name in ("Fay", "Ben", "Dia")] == ["red", "green", "black"]
