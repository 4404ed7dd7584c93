"""BERT learns masked words, then labels and tags, from scratch and after pre-training."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.errors import UserError
from glassformer.glass.trace import Trace

FAST = {
    "train.warmup": 20,
    "train.validate_every": 50,
    "model.dropout": 0.0,
    "train.average": 1,
    "train.lr": 3e-3,
    "train.batch_tokens": 512,
}
SIZE = {"model.family": "bert", "model.layers": 2, "model.d_model": 32}
ANIMALS = {"cat": "meows", "dog": "barks", "cow": "moos", "duck": "quacks"}


def said(count: int, seed: int) -> list[str]:
    """Sentences in which the sound follows from the animal, at any distance."""
    dice, lines = random.Random(seed), []
    for _ in range(count):
        animal, adjectives = dice.choice(list(ANIMALS)), dice.choices(["big", "old", "red"], k=dice.randint(0, 3))
        lines.append(" ".join(["the", *adjectives, animal, ANIMALS[animal]]))
    return lines


def tagged(sentences: Iterable[Iterable[tuple[str, str]]]) -> str:
    """CoNLL-U."""
    rows = ("".join(f"{i}\t{word}\t_\t{tag}\t_\n" for i, (word, tag) in enumerate(s, 1)) for s in sentences)
    return "\n".join(rows)


@pytest.mark.learns
def test_masked_language_model_and_fine_tuning(tmp_path: Path) -> None:
    labelled = [("pet" if "cat" in line or "dog" in line else "farm", line) for line in said(500, 1)]
    labels_file, tags_file = tmp_path / "labels.tsv", tmp_path / "tags.conllu"
    labels_file.write_text("".join(f"{label}\t{line} {i}\n" for i, (label, line) in enumerate(labelled)))
    tags = dict.fromkeys(ANIMALS.values(), "VERB")
    tags_file.write_text(tagged([(word, tags.get(word, "REST")) for word in line.split()] for line in said(300, 2)))
    text_file, held_out = tmp_path / "text.conllu", tmp_path / "valid.conllu"
    text_file.write_text(tagged([(word, "_") for word in line.split()] for line in said(600, 3)))
    held_out.write_text(tagged([(word, "_") for word in line.split()] for line in said(200, 4)))

    reading = FAST | SIZE | {"task": "masked_language_model", "train.steps": 300, "train.lr": 5e-3}
    read = gf.train(str(text_file), valid=[str(held_out)], out=tmp_path / "read", settings=reading)
    assert read.scores["valid"].scores["accuracy"] >= 55  # most adjectives, and some animals, can only be guessed
    filler = gf.load(read.path)
    assert filler("the old duck ___") == "the old duck quacks"
    (answer,) = filler.predict(["the ___ cow [MASK]"])
    assert answer.text.endswith("cow moos") and len(answer.blanks) == 2
    assert next(iter(answer.blanks[0])) in ("big", "old", "red")
    with pytest.raises(UserError, match="no blank to fill"):
        filler("the cat meows")
    seen: Trace = filler.trace("the cat ___")
    assert seen.source == ["<sos>", "▁the", "▁cat", "<mask>", "<eos>"]
    assert seen.attention("encoder").shape == (4, 5, 5)

    few = FAST | {"train.steps": 60}
    labels = gf.train(str(labels_file), out=tmp_path / "labels", start_from=read.path, settings=few)
    assert labels.scores["valid"].scores["accuracy"] >= 97
    assert gf.load(labels.path)("the red old dog barks") == "pet"
    by_first = few | {"model.family": "bert", "model.pooling": "first"}
    labels = gf.train(str(labels_file), out=tmp_path / "by-first", start_from=read.path, settings=by_first)
    assert labels.scores["valid"].scores["accuracy"] >= 97
    tagging = gf.train(str(tags_file), out=tmp_path / "tags", start_from=read.path, settings=few)
    assert gf.load(tagging.path)("the cow moos") == [("the", "REST"), ("cow", "REST"), ("moos", "VERB")]
    with pytest.raises(UserError, match="model and tokenizer are those of the other run"):
        gf.train(str(labels_file), out=tmp_path / "x", start_from=read.path, settings={"model.layers": 3})
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in said(60, 5)))
    with pytest.raises(UserError, match="another task or other labels: masked_language_model"):
        gf.train(str(tmp_path / "text.txt"), out=tmp_path / "x", start_from=read.path)


@pytest.mark.learns
def test_labels_and_tags_from_scratch(tmp_path: Path) -> None:
    """The label is whether the two words are the same, which no single word determines."""
    dice, words = random.Random(4), ["ba", "de", "ki"]
    rows = [dice.choices(words, k=2) for _ in range(400)]
    pairs = "".join(f"{a == b}\t{a} and {b} {i % 7}\n" for i, (a, b) in enumerate(rows))
    (tmp_path / "a.tsv").write_text(pairs, encoding="utf-8")
    settings = FAST | SIZE | {"train.steps": 300, "data.drop_duplicates": False}
    run = gf.train(str(tmp_path / "a.tsv"), out=tmp_path / "run", settings=settings)
    assert run.scores["valid"].scores["accuracy"] >= 97
    labeller = gf.load(run.path)
    assert labeller(["ki and ki 3", "ki and ba 3"]) == ["True", "False"]
    assert labeller("ki and ki 3" + " 1" * 900) in ("True", "False")  # tokens beyond the maximum length are truncated
    places = tagged(zip(row, ["FIRST", "LAST"], strict=True) for row in rows)
    (tmp_path / "a.conllu").write_text(places, encoding="utf-8")
    run = gf.train(str(tmp_path / "a.conllu"), out=tmp_path / "tags", settings=FAST | SIZE | {"train.steps": 100})
    assert run.scores["valid"].scores["accuracy"] >= 99  # the same words: only the order differs
    tagger = gf.load(run.path)
    assert tagger("ba ba") == [("ba", "FIRST"), ("ba", "LAST")]
    with pytest.raises(UserError, match="the model accepts at most"):
        tagger("ba " * 300)
