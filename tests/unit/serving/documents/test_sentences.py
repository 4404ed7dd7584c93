"""Sentence boundaries in the languages of the lessons and in the ones that need no spaces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.serving.documents.sentences import Span, sentence_spans

CASES = [
    ("Hello there. How are you? Fine!", ["Hello there.", "How are you?", "Fine!"]),
    ("One sentence without an end", ["One sentence without an end"]),
    ("Dr. Smith met Mrs. Jones at 5 p.m. today. Yes.", ["Dr. Smith met Mrs. Jones at 5 p.m. today.", "Yes."]),
    ("J. R. R. Tolkien wrote it. I read it.", ["J. R. R. Tolkien wrote it.", "I read it."]),
    ("It costs 3.50 euros. Cheap!", ["It costs 3.50 euros.", "Cheap!"]),
    ("Am 3. Oktober feiern wir. Das ist z. B. frei.", ["Am 3. Oktober feiern wir.", "Das ist z. B. frei."]),
    ("It was in 1990. Then it ended.", ["It was in 1990.", "Then it ended."]),
    ("“Really?” she said. “Yes.” He left.", ["“Really?” she said.", "“Yes.”", "He left."]),
    ("Wait… what? (No.) Go on.", ["Wait… what?", "(No.)", "Go on."]),
    ("Il est parti. Où ? À Paris !", ["Il est parti.", "Où ?", "À Paris !"]),
    ("나는 학생입니다. 너는 누구니? 모르겠어요!", ["나는 학생입니다.", "너는 누구니?", "모르겠어요!"]),
    ("비가 왔다. 그래서 집에 있었다.", ["비가 왔다.", "그래서 집에 있었다."]),
    ("我是学生。你呢？好！", ["我是学生。", "你呢？", "好！"]),
    ("「はい。」と言った。次。", ["「はい。」", "と言った。", "次。"]),
    ("a.b.c example.org is a name. Yes.", ["a.b.c example.org is a name.", "Yes."]),
    ("  spaces around.  Two spaces.  ", ["spaces around.", "Two spaces."]),
    ("", []),
    ("   ", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentences"), CASES, ids=range(len(CASES)))
def test_boundaries(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


def test_a_lower_case_word_after_a_removed_one_begins_a_sentence() -> None:
    text = "Saved.  was deleted."  # "Saved. {name} was deleted." without the placeholder
    assert len(sentence_spans(text)) == 1
    assert len(sentence_spans(text, removed={7})) == 2


def test_no_boundary_inside_a_span() -> None:
    text = "We read Dogs. Cats. Then we left."
    title = Span(8, 19)  # a title that must not be split
    assert [text[a:b] for a, b in sentence_spans(text, whole=[title])] == ["We read Dogs. Cats.", "Then we left."]


@given(st.text(alphabet="aB. !?。\n\"')1"))
def test_sentences_are_disjoint_and_leave_only_whitespace(text: str) -> None:
    spans = sentence_spans(text)
    assert all(one.end <= other.start for one, other in pairwise(spans))
    rest = list(text)
    for start, end in spans:
        assert text[start:end] == text[start:end].strip() != ""
        rest[start:end] = " " * (end - start)
    assert "".join(rest).strip() == ""
