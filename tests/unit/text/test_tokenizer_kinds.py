"""Tokenizers of characters and of notes."""

from __future__ import annotations

import unicodedata

import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from glassformer.text.lines import normalize_line
from glassformer.text.tokenizer import BYTE_TOKENS, EOS, SPECIAL_TOKENS, Tokenizer

LINES = ["To be, or  not to be:", "\tthat is the question\u00a0…", "개가 짖는다"]
CHARACTERS = Tokenizer.from_characters(LINES, vocab=1000)
LOWERED = Tokenizer.train_bpe(LINES, vocab=300, lowercase=True)
NOTES = Tokenizer.from_pitches([60, 64, -1, 60])


def test_one_entry_a_character_and_white_space_stays() -> None:
    text = "To  be\n\n\tor not"
    ids = CHARACTERS.encode(text)
    assert len(ids) == len(text)
    assert CHARACTERS.decode(ids) == text
    assert CHARACTERS.pieces(ids) == list(text)
    assert len(CHARACTERS) == len(SPECIAL_TOKENS) + len(BYTE_TOKENS) + len(set("".join(LINES)) | {"\n"})


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_survives_the_round_trip_in_nfc(text: str) -> None:
    assert CHARACTERS.decode(CHARACTERS.encode(text)) == unicodedata.normalize("NFC", text)


def test_unseen_characters_are_encoded_as_bytes() -> None:
    assert CHARACTERS.pieces(CHARACTERS.encode("é")) == ["<0xC3>", "<0xA9>"]
    assert CHARACTERS.decode(CHARACTERS.encode("e\u0301 <eos>")) == "é <eos>"


def test_a_line_ends_with_a_line_break() -> None:
    assert CHARACTERS.pieces([CHARACTERS.newline_id]) == ["\n"]
    assert NOTES.newline_id == EOS


def test_the_rarest_characters_are_left_out() -> None:
    small = Tokenizer.from_characters(["a" * 9 + "b" * 5 + "c"], vocab=len(SPECIAL_TOKENS) + len(BYTE_TOKENS) + 3)
    assert small.pieces(small.encode("abc")) == ["a", "b", "<0x63>"]


def test_the_tokenizer_is_restored_from_its_file() -> None:
    for tokenizer, kind in (
        (CHARACTERS, "characters"),
        (NOTES, "notes"),
        (Tokenizer.train_bpe(LINES, vocab=300), "bpe"),
    ):
        again = Tokenizer.from_json(tokenizer.to_json())
        assert again.kind == tokenizer.kind == kind
        assert again.encode("60 64\n a") == tokenizer.encode("60 64\n a")


def test_one_token_per_pitch() -> None:
    assert len(NOTES) == len(SPECIAL_TOKENS) + 4
    assert NOTES.pieces(NOTES.encode("60 -1 64 61")) == ["60", "-1", "64", "<unk>"]
    assert NOTES.encode("61") == [NOTES.unk_id]
    assert NOTES.decode(NOTES.encode("64 60 -1")) == "64 60 -1"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_text_is_lowercased_only_on_request(text: str) -> None:
    assert LOWERED.decode(LOWERED.encode(text)) == normalize_line(text.lower())
    assert LOWERED.encode_batch([text, "x"])[0] == LOWERED.encode(text) == LOWERED.encode(text.lower())


def test_a_lowercasing_tokenizer_has_no_capital_letters() -> None:
    again = Tokenizer.from_json(LOWERED.to_json())
    assert again.lowercase and not Tokenizer.train_bpe(LINES, vocab=300).lowercase
    assert again.encode("TO BE") == LOWERED.encode("to be")
    assert again.pieces(again.encode("T")) == ["▁t"]
    outside = tokenizers.Tokenizer.from_str(LOWERED.to_json())  # as another tool reads the file
    assert outside.encode("To BE", add_special_tokens=False).ids == LOWERED.encode("to be")
