"""Subword tokenizer: no unknown tokens, and decoding inverts encoding."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import UserError
from glassformer.phrasebook.corpus import phrasebook
from glassformer.text.caching_encoder import CachingEncoder
from glassformer.text.lines import normalize_line
from glassformer.text.tokenizer import EOS, PAD, SOS, Tokenizer

LINES = [text for t in phrasebook(size=300).train for text in (t.english, t.french, t.korean)]
TOKENIZER = Tokenizer.train_bpe(LINES, vocab=700)


@given(st.text())
def test_any_text_survives_the_round_trip(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == normalize_line(text)
    assert all(i > EOS for i in ids)  # nothing unknown, nothing special


@pytest.mark.parametrize(
    "text", ["<eos>", "<pad> <sos>", "<0x41>", "a<eos>b", "👩‍👩‍👧‍👦", "한글 한", "\x00", "▁", "日本語とئۇيغۇر"]
)
def test_unusual_text_survives_the_round_trip(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == normalize_line(text)
    assert not {PAD, SOS, EOS} & set(ids)


@given(st.lists(st.text()))
def test_a_batch_is_encoded_like_its_lines(lines: list[str]) -> None:
    assert TOKENIZER.encode_batch(lines) == [TOKENIZER.encode(line) for line in lines]


def test_the_tokenizer_is_restored_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(TOKENIZER.to_json(), encoding="utf-8")
    loaded = Tokenizer.load(path)
    text = "<eos> Où est la gare ? 저는 학생입니다 🙂"
    assert loaded.encode(text) == TOKENIZER.encode(text)
    assert loaded.decode(loaded.encode(text)) == text


def test_common_words_are_one_token_and_punctuation_is_separate() -> None:
    assert TOKENIZER.pieces(TOKENIZER.encode("because it.")) == ["▁because", "▁it", "."]


def test_digits_are_separate_tokens() -> None:
    assert len(TOKENIZER.encode("1984")) == 1 + 4  # the word mark, which no piece with a digit has absorbed here


def test_vocabulary_is_no_larger_than_asked() -> None:
    assert len(TOKENIZER) <= 700
    assert len(Tokenizer.train_bpe(["a b"], vocab=5000)) < 300  # a text of two letters has no more to merge


def test_training_is_reproducible() -> None:
    assert Tokenizer.train_bpe(LINES, vocab=700).to_json() == TOKENIZER.to_json()


def test_no_ids_decode_to_more_than_one_line() -> None:
    line_breaks = [
        TOKENIZER.encode("a")[-1],
        *(3 + byte for byte in b"\n\r\x0b\x1c\xe2\x80\xa8"),
        TOKENIZER.encode("b")[-1],
    ]
    assert TOKENIZER.pieces(line_breaks)[1] == "<0x0A>"
    assert len(TOKENIZER.decode(line_breaks).splitlines()) == 1


def test_a_foreign_tokenizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    state = json.loads(TOKENIZER.to_json())
    state["model"]["vocab"]["<bos>"] = state["model"]["vocab"].pop("<sos>")
    state["added_tokens"] = []
    path.write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(UserError, match="not made by Glassformer"):
        Tokenizer.load(path)


def same_ids(encoder: CachingEncoder, tokenizer: Tokenizer, lines: list[str]) -> None:
    ids, lengths = encoder(lines)
    expected = tokenizer.encode_batch(lines)
    assert ids.tolist() == [i for line in expected for i in line]
    assert lengths.tolist() == [len(line) for line in expected]


class TestLinesEncoder:
    encoder = CachingEncoder(TOKENIZER)

    @given(st.lists(st.text().map(normalize_line) | st.sampled_from(LINES).map(normalize_line)))
    def test_word_by_word_gives_the_ids_of_the_line(self, lines: list[str]) -> None:
        same_ids(self.encoder, TOKENIZER, lines)

    @pytest.mark.parametrize(
        "line", ["<eos> <pad>", "<0x41>a", "a\u0301 \u0301b", "한글 한", "3.14€ … '«x»'", "日本語 です"]
    )
    def test_odd_lines(self, line: str) -> None:
        same_ids(CachingEncoder(TOKENIZER), TOKENIZER, [normalize_line(line), "", "and more"])

    def test_a_full_cache_is_emptied(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(CachingEncoder, "MAX_WORDS", 20)
        encoder = CachingEncoder(TOKENIZER)
        for start in range(0, 100, 10):
            same_ids(encoder, TOKENIZER, [normalize_line(line) for line in LINES[start : start + 10]])
        assert len(encoder._word_ids) < 200

    def test_lines_are_encoded_whole_if_the_tokenizer_joins_words(self, tmp_path: Path) -> None:
        state = json.loads(TOKENIZER.to_json())
        state["pre_tokenizer"] = None
        path = tmp_path / "tokenizer.json"
        path.write_text(json.dumps(state), encoding="utf-8")
        other = Tokenizer.load(path)
        assert TOKENIZER.splits_at_spaces() and not other.splits_at_spaces()
        same_ids(CachingEncoder(other), other, ["I am a student", "", "he is here"])


SAME_TEXT = """
from glassformer.text.tokenizer import Tokenizer
import hashlib, sys
lines = ["".join(chr(0xAC00 + (7 * i + j * j) % 3000) for j in range(9)) for i in range(400)]  # all about as rare
lines = iter(lines) if sys.argv[1] == "once" else lines
print(hashlib.blake2b(Tokenizer.train_bpe(lines, vocab=700).to_json().encode()).hexdigest())
"""


def test_the_same_text_gives_the_same_tokenizer_in_any_process() -> None:
    """Even if there are more characters than vocabulary entries, and many are equally frequent."""
    found = {
        subprocess.run([sys.executable, "-c", SAME_TEXT, how], capture_output=True, text=True, check=True).stdout
        for how in ("twice", "twice", "twice", "once")
    }
    assert len(found) == 1


# ------------------------------------------------------------------------------------------ unknown words


def test_a_vocabulary_with_room_left_holds_every_word_of_its_text(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(Tokenizer.train_bpe(LINES, vocab=20_000).to_json(), encoding="utf-8")
    tokenizer = Tokenizer.load(path, requested_vocab=20_000)
    assert tokenizer.holds_training_words
    assert {word for line in LINES for word in tokenizer.unknown_words(line)} == set()
    unknown = tokenizer.unknown_words("I am a zebra, quantumly.")
    assert list(unknown) == ["zebra", "quantumly"]
    assert all("".join(pieces).lstrip("▁").startswith(word) for word, pieces in unknown.items())


def test_a_full_vocabulary_calls_only_what_is_spelled_out_unknown() -> None:
    assert not TOKENIZER.holds_training_words
    assert list(TOKENIZER.unknown_words("The zzyzx is big. It is.")) == ["zzyzx"]
    assert list(TOKENIZER.unknown_words("big!")) == ["!"]  # and not the word that it follows
    assert list(TOKENIZER.unknown_words("ok 🙂 Ж")) == ["🙂", "Ж"]  # which are spelled in bytes
    assert TOKENIZER.unknown_words("") == {}


def test_characters_are_unknown_only_where_they_are_spelled_in_bytes() -> None:
    tokenizer = Tokenizer.from_characters(LINES, vocab=1000)
    assert list(tokenizer.unknown_words("zzyzx Ж")) == ["Ж"]


def test_a_pitch_that_no_piece_has_is_unknown() -> None:
    assert list(Tokenizer.from_pitches([60, 62]).unknown_words("60 61 62")) == ["61"]


def test_entries_are_counted_without_special_ones_and_bytes() -> None:
    assert Tokenizer.from_pitches([60, 62]).entries == 2
    assert TOKENIZER.entries == len(TOKENIZER) - 3 - 256
