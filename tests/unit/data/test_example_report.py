"""Reports of examples, held-out examples, and the alignment of words and subwords."""

from __future__ import annotations

import json

import pytest

from glassformer.data.filtering import split_off_validation
from glassformer.data.report import DataReport, DroppedExample, example_split, fingerprint
from glassformer.errors import UserError
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.words import encode_words, split_words


def test_the_report_counts_and_shows_examples_with_their_place() -> None:
    bad = [DroppedExample("empty lines", f"a.tsv:{i}", "(empty)\x1b[2J") for i in range(7)]
    train = example_split(40, bad, facts={"words": 1234}, labels=["b", *["a"] * 39])
    report = DataReport("texts", {"train": train}, held_out="valid: a slice", notes=["look"])
    assert report.counts == {"train": 40}
    said = "\n".join(report.lines())
    for words in ("47 texts read, 40 kept", "7  dropped: empty lines", "a.tsv:4", "1,234 words", "a  39 (97.5%)"):
        assert words in said
    assert "a.tsv:5" not in said and "\x1b" not in said
    assert "valid: a slice" in said and "note: look" in said
    assert report.warnings() == [
        "train: 7 of 47 texts (14.9%) were dropped, most of them for this reason: empty lines",
        "train: the label 'b' has only 1 examples, too few to learn it",
    ]
    assert json.loads(json.dumps(report.to_json()))["splits"]["train"]["kept"] == 40


def test_held_out_examples_depend_on_the_text_alone() -> None:
    texts = [f"text {i % 300}" for i in range(330)]
    train, valid = split_off_validation(texts, texts, "here")
    assert not set(train) & set(valid)
    assert len(train) + len(valid) == 330 and 20 <= len(valid) <= 33
    other_train, other_valid = split_off_validation(texts[::-1], texts[::-1], "here")
    assert (set(other_train), set(other_valid)) == (set(train), set(valid))


@pytest.mark.parametrize("texts", [[], ["one"], ["same"] * 50])
def test_too_few_examples_to_hold_out(texts: list[str]) -> None:
    with pytest.raises(UserError, match=r"too few different examples to hold out(.|\n)*--valid"):
        split_off_validation(texts, texts, "here")


def test_the_fingerprint_depends_on_texts_and_splits() -> None:
    a, b = ("text", "label", "a.tsv:1"), ("other", "label", "a.tsv:2")
    prints = {
        fingerprint("t", [a], [b]),
        fingerprint("t", [b], [a]),
        fingerprint("t", [a, b], []),
        fingerprint("u", [a]),
    }
    assert len(prints) == 4
    assert fingerprint("t", [a], [b]) == fingerprint("t", [("text", "label", "b.tsv:9")], [b])


def test_the_last_subword_of_every_word() -> None:
    tokenizer = Tokenizer.train_bpe(["walk walking talk talking"] * 9, vocab=270)
    (row,) = encode_words([["walking", "talk", "xyz"]], tokenizer)
    assert row.ids == [*tokenizer.encode("walking"), *tokenizer.encode("talk"), *tokenizer.encode("xyz")]
    ends = [len(tokenizer.encode(word)) for word in ("walking", "talk", "xyz")]
    assert row.last == [ends[0] - 1, ends[0] + ends[1] - 1, sum(ends) - 1]


def test_punctuation_is_a_separate_word() -> None:
    assert split_words('"Dogs bark", he said...') == ['"', "Dogs", "bark", '"', ",", "he", "said", ".", ".", "."]
    assert split_words("well-known — 개가 짖는다.") == ["well-known", "—", "개가", "짖는다", "."]


def test_english_clitics_are_separate_words() -> None:
    assert split_words("It's what they didn't say, they’ll") == [
        *("It", "'s", "what", "they"),
        *("did", "n't", "say", ",", "they", "’ll"),
    ]
    assert split_words("l'homme 's o'clock") == ["l'homme", "'", "s", "o'clock"]
