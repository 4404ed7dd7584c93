"""A Transformer learns to reverse a sequence, from scratch."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.tasks.metrics import exact_match

SETTINGS = {
    "tokenizer.vocab": 300,
    "model.layers": 2,
    "model.d_model": 64,
    "model.heads": 4,
    "model.d_ff": 128,
    "model.dropout": 0.0,
    "train.batch_tokens": 512,  # two lengths a step: batches are of one source length each
    "train.accumulate": 2,
    "train.steps": 1500,
    "train.warmup": 150,
    "train.lr": 3e-3,
    "train.validate_every": 250,
    "train.valid_sentences": 50,
    "train.average": 4,
}


def sequences(count: int, seed: int) -> list[list[str]]:
    dice = random.Random(seed)
    return [[dice.choice("abcdefghijklm") for _ in range(dice.randint(2, 10))] for _ in range(count)]


@pytest.mark.learns
def test_learns_to_reverse(tmp_path: Path) -> None:
    drawn = {tuple(words): words for words in sequences(12_000, seed=1)}
    pairs = [(" ".join(words), " ".join(words[::-1])) for words in drawn.values() if len(words) > 2]
    train, test = pairs[:-300], pairs[-300:]
    corpus = tmp_path / "train.tsv"
    corpus.write_text("".join(f"{source}\t{target}\n" for source, target in train), encoding="utf-8")

    run = gf.train(str(corpus), out=tmp_path / "run", settings=SETTINGS)
    outputs = gf.load(run.path)([source for source, _ in test])

    assert exact_match(outputs, [target for _, target in test]) >= 99
