"""Many to one, many to many, one to many: small models learn simple problems in seconds."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import glassformer as gf

FAST = {"train.warmup": 20, "train.validate_every": 50, "model.dropout": 0.0, "train.average": 1, "train.lr": 1e-2}
WORDS = [f"{a}{b}{c}" for a in "bdfgkl" for b in "aeiou" for c in ("na", "so", "ti", "rem")]


def texts(count: int, seed: int) -> list[list[str]]:
    dice = random.Random(seed)
    return [dice.choices(WORDS, k=dice.randint(2, 12)) for _ in range(count)]


@pytest.mark.learns
def test_a_keyword_decides_the_label(tmp_path: Path) -> None:
    dice, rows = random.Random(2), []
    for words in texts(900, 1):
        label = dice.choice(["praise", "blame", "neither"])
        if label != "neither":
            words.insert(dice.randrange(len(words)), {"praise": "splendid", "blame": "dreadful"}[label])
        rows.append(f"{' '.join(words)}\t{label}\n")
    (tmp_path / "train.tsv").write_text("".join(rows), encoding="utf-8")
    settings = FAST | {"train.steps": 120, "model.d_model": 32, "train.batch_tokens": 512}
    run = gf.train(str(tmp_path / "train.tsv"), out=tmp_path / "run", settings=settings)
    assert run.scores["valid"].scores["accuracy"] >= 97
    labeller = gf.load(run.path)
    assert labeller("bana splendid kiso") == "praise"
    assert labeller(["bana dreadful kiso fati", "bana kiso"]) == ["blame", "neither"]
    (answer,) = labeller.predict(["dreadful kiso"])
    assert sum(answer.probabilities.values()) == pytest.approx(1)
    assert answer.label == next(iter(answer.probabilities)) == "blame"


@pytest.mark.learns
def test_a_suffix_decides_the_tag(tmp_path: Path) -> None:
    tags = {"na": "NOUN", "so": "VERB", "ti": "ADJ", "rem": "ADV"}

    def tag(word: str) -> str:
        return next(tag for suffix, tag in tags.items() if word.endswith(suffix))

    sentences = (
        "".join(f"{i}\t{word}\t_\t{tag(word)}\t_\n" for i, word in enumerate(words, 1)) for words in texts(500, 3)
    )
    (tmp_path / "train.conllu").write_text("\n".join(sentences), encoding="utf-8")
    settings = FAST | {"train.steps": 100, "model.d_model": 32, "train.batch_tokens": 512, "tokenizer.vocab": 300}
    run = gf.train(str(tmp_path / "train.conllu"), out=tmp_path / "run", settings=settings)
    assert run.scores["valid"].scores["accuracy"] >= 99
    assert gf.load(run.path)("bana fiso kuti, lorem.")[:3] == [("bana", "NOUN"), ("fiso", "VERB"), ("kuti", "ADJ")]


@pytest.mark.learns
@pytest.mark.parametrize("family", ["recurrent_lm", "window", "gpt"])
def test_a_character_model_learns_a_repeating_text(family: str, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat.\n" * 400, encoding="utf-8")
    (tmp_path / "valid.txt").write_text("the cat sat on the mat.\n" * 20, encoding="utf-8")
    settings = FAST | {
        "model.family": family,
        "tokenizer.kind": "characters",
        "train.steps": 150,
        "model.d_model": 24,
        "train.batch_tokens": 512,
        "data.sequence": 48,
    }
    if family == "window":
        settings |= {"model.window": 8, "model.d_hidden": 48}
    if family == "gpt":
        settings |= {"model.layers": 2}
    run = gf.train(str(text), valid=[str(tmp_path / "valid.txt")], out=tmp_path / "run", settings=settings)
    scores = run.scores["valid"].scores
    assert scores["perplexity"] < 1.2
    assert scores["loss"] < 0.1 * scores["baseline_loss"]
    sampling = gf.Sampling(temperature=0.2)
    written = gf.load(run.path)("the cat sat", length=40, sampling=sampling)
    assert written == ("the cat sat on the mat.\n" * 3)[: len("the cat sat") + 40]


@pytest.mark.learns
def test_a_music_model_learns_a_melody_over_held_notes(tmp_path: Path) -> None:
    piece = [[60 + i % 4, 55, 50, 40] for i in range(64)]
    (tmp_path / "train.json").write_text(json.dumps([piece] * 12), encoding="utf-8")
    (tmp_path / "valid.json").write_text(json.dumps([piece]), encoding="utf-8")
    settings = FAST | {"train.steps": 300, "model.d_model": 24, "train.batch_tokens": 512, "data.sequence": 64}
    run = gf.train(
        str(tmp_path / "train.json"), valid=[str(tmp_path / "valid.json")], out=tmp_path / "run", settings=settings
    )
    scores = run.scores["valid"].scores
    assert scores["nats_per_note"] < 0.1 < scores["baseline_loss"]
    composed = gf.load(run.path)([60, 55, 50, 40], steps=12, sampling=gf.Sampling(temperature=0.2))
    assert composed == piece[:12]


@pytest.mark.learns
def test_a_window_forgets_what_leaves_it(tmp_path: Path) -> None:
    """A line ends with its first letter, after three others."""
    dice = random.Random(4)
    (tmp_path / "text.txt").write_text("".join(f"{c}xyz{c}\n" for c in dice.choices("abcd", k=1500)))
    recalled = {}
    for name, family in {
        "window of 3": {"model.family": "window", "model.window": 3, "model.d_hidden": 48},
        "window of 4": {"model.family": "window", "model.window": 4, "model.d_hidden": 48},
        "gru": {"model.family": "recurrent_lm", "model.cell": "gru"},
        "gpt": {"model.family": "gpt", "model.layers": 2, "train.lr": 3e-3},
    }.items():
        settings = FAST | {"tokenizer.kind": "characters", "train.steps": 400, "model.d_model": 32} | family
        settings |= {"train.batch_tokens": 512, "data.sequence": 6}
        run = gf.train(str(tmp_path / "text.txt"), out=tmp_path / name, settings=settings)
        model, likeliest = gf.load(run.path), gf.Sampling(top_k=1)
        recalled[name] = [model(f"{c}xyz", length=1, sampling=likeliest)[-1] for c in "abcd"]
    assert recalled["window of 4"] == recalled["gru"] == recalled["gpt"] == list("abcd")
    assert len(set(recalled["window of 3"])) == 1  # whatever the line began with: all it sees is "xyz"
