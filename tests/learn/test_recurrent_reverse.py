"""With attention a small GRU learns to reverse long sequences; without attention it does not."""

from __future__ import annotations

import random

import pytest

import glassformer as gf
from glassformer.tasks.metrics import exact_match

SETTINGS = {
    "tokenizer.vocab": 300,
    "model.family": "recurrent",
    "model.cell": "gru",
    "model.layers": 1,
    "model.d_model": 64,
    "model.dropout": 0.0,
    "train.batch_tokens": 512,
    "train.steps": 600,
    "train.warmup": 50,
    "train.lr": 5e-3,
    "train.validate_every": 600,
    "train.valid_sentences": 100,
    "decode.beam": 1,
}


def pairs() -> list[tuple[str, str]]:
    dice = random.Random(1)
    drawn = [tuple(dice.choice("abcdefghijklm") for _ in range(dice.randint(3, 12))) for _ in range(6000)]
    return [(" ".join(words), " ".join(words[::-1])) for words in dict.fromkeys(drawn)]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """Accuracy in percent on short and on long sequences, by kind of attention."""
    folder, scores = tmp_path_factory.mktemp("reverse"), {}
    train, test = pairs()[:-300], pairs()[-300:]
    (folder / "train.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in train), encoding="utf-8")
    for attention in ("additive", "none"):
        settings = SETTINGS | {"model.attention": attention}
        translator = gf.load(gf.train(str(folder / "train.tsv"), out=folder / attention, settings=settings).path)
        scores[attention] = {}
        for name, lengths in (("short", range(3, 7)), ("long", range(10, 13))):
            chosen = [pair for pair in test if len(pair[0].split()) in lengths]
            outputs = translator([source for source, _ in chosen])
            scores[attention][name] = exact_match(outputs, [target for _, target in chosen])
    return scores


@pytest.mark.learns
def test_attention_learns_to_reverse(learned: dict[str, dict[str, float]]) -> None:
    assert learned["additive"]["short"] >= 95
    assert learned["additive"]["long"] >= 90


@pytest.mark.learns
def test_without_attention_long_sequences_are_not_reversed(learned: dict[str, dict[str, float]]) -> None:
    assert learned["none"]["short"] >= 20  # it learned short sequences in part
    assert learned["none"]["long"] <= 20
