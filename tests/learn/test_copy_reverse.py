"""Models that learn, from scratch, in seconds: to copy a sequence and to reverse it."""

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
    "train.validate_every": 150,
    "train.average": 4,
}


def sequences(count: int, seed: int) -> list[list[str]]:
    dice = random.Random(seed)
    return [[dice.choice("abcdefghijklm") for _ in range(dice.randint(2, 10))] for _ in range(count)]


@pytest.mark.learns
@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_learns_to_copy_and_to_reverse(task: str, tmp_path: Path) -> None:
    step = 1 if task == "copy" else -1
    drawn = {tuple(words): words for words in sequences(12_000, seed=1)}
    pairs = [(" ".join(words), " ".join(words[::step])) for words in drawn.values() if len(words) > 2]
    train, test = pairs[:-300], pairs[-300:]
    corpus = tmp_path / "train.tsv"
    corpus.write_text("".join(f"{source}\t{target}\n" for source, target in train), encoding="utf-8")

    run = gf.train(str(corpus), out=tmp_path / "run", settings=SETTINGS)
    outputs = gf.load(run.path)([source for source, _ in test])

    assert exact_match(outputs, [target for _, target in test]) >= 99
