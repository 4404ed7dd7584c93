"""Plain text: spacing, placeholders, and terms that are not translated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from word_by_word import same_order, translated

from glassformer.serving.documents.document import parse_text
from glassformer.serving.documents.placeholders import placeholder_spans, term_spans
from glassformer.serving.jobs import Hypothesis


@pytest.mark.parametrize(
    "text",
    [
        "Hello there.  How are you?\n\n  Indented. End\r\nNext line\t\n",
        "\n\n",
        "",
        "No. 5 is alive!\n- one\n- two\n",
        "나는 학생입니다.  너는?\n",
    ],
)
def test_spacing_survives(text: str) -> None:
    assert translated(parse_text(text)) == text.upper()


def test_each_sentence_is_translated_alone() -> None:
    sources = parse_text("One two. Three?\nFour").sources
    assert [source.text for source in sources] == ["One two.", "Three?", "Four"]
    assert not any(source.needs_alignment or source.kept_terms for source in sources)


def test_text_without_letters_is_not_translated() -> None:
    document = parse_text("*** 😀 !!!\n---\n{name}\n")
    assert document.sources == [] and document.render([]) == "*** 😀 !!!\n---\n{name}\n"


PLACEHOLDERS = ["{name}", "{0}", "{{user}}", "${total}", "%{count}", "%s", "%1$s", "%d", "%05.2f", "%(name)s", "%@",
                "https://a.example/b?c=d", "me@example.org", "file{n}name", '"{title}"', "({name})"]  # fmt: skip


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
@pytest.mark.parametrize("reverse", [False, True])
def test_placeholders_survive_unseen(placeholder: str, reverse: bool) -> None:
    document = parse_text(f"You have {placeholder} new messages.")
    assert [source.text for source in document.sources] == ["You have new messages."]
    text = translated(document, reverse=reverse)
    assert text == ("MESSAGES. NEW HAVE # YOU" if reverse else "YOU HAVE # NEW MESSAGES.").replace("#", placeholder)


@pytest.mark.parametrize(
    "text", ["100% sure", "50 %of them", "a {very long brace that never ends", "5% discount", "{}x y"]
)
def test_ordinary_text_is_no_placeholder(text: str) -> None:
    assert [text[a:b] for a, b in placeholder_spans(text)] in ([], ["{}x"])


@pytest.mark.parametrize(
    ("text", "seen", "result"),
    [
        ("Hello {name}!", "Hello!", "HELLO {name}!"),
        ("Hello, {name}!", "Hello,", "HELLO, {name}!"),
        ("{name}, come here!", "come here!", "{name}, COME HERE!"),
        ("See the page (at {url}).", "See the page (at).", "SEE THE PAGE (AT {url})."),
        ("{a} and {b}", "and", "{a} AND {b}"),
        ("From %s to %s.", "From to.", "FROM %s TO %s."),
    ],
)
def test_punctuation_next_to_placeholders(text: str, seen: str, result: str) -> None:
    document = parse_text(text)
    assert [source.text for source in document.sources] == [seen]
    assert translated(document) == result


def test_a_placeholder_may_begin_a_sentence() -> None:
    document = parse_text("Saved. {name} was deleted.")
    assert [source.text for source in document.sources] == ["Saved.", "was deleted."]
    assert translated(document) == "SAVED. {name} WAS DELETED."


def test_every_placeholder_survives_any_alignment() -> None:
    document = parse_text("Give %1$s to {name} and %2$s to {other}.")
    for alignment in ((), ((0, 0),), ((9, 9), (0, 1)), tuple((s, t) for s in range(5) for t in range(3))):
        text = document.render([Hypothesis("Donne le", 0.0, alignment)])
        assert all(text.count(one) == 1 for one in ("%1$s", "{name}", "%2$s", "{other}"))


def test_terms_are_seen_but_kept() -> None:
    document = parse_text("Glassformer reads C++ code.", ["Glassformer", "C++"])
    (source,) = document.sources
    assert source.text == "Glassformer reads C++ code." and source.kept_terms == ("Glassformer", "C++")
    assert translated(document) == "Glassformer READS C++ CODE."
    assert translated(document, reverse=True) == "CODE. C++ READS Glassformer"


def test_a_term_that_was_translated_is_put_back() -> None:
    document = parse_text("We like New York.", ["New York"])
    text = document.render([Hypothesis("Nous aimons Nouvelle Yorque.", 0.0, ((0, 0), (1, 1), (2, 2), (3, 3)))])
    assert text == "Nous aimons New York."


def test_a_term_that_was_left_out_is_inserted() -> None:
    document = parse_text("We like Acme very much.", ["Acme"])
    assert "Acme" in document.render([Hypothesis("Nous aimons bien", 0.0, ((0, 0), (1, 1), (4, 2)))])


def test_terms_are_whole_words_and_may_have_korean_particles() -> None:
    assert term_spans("an art artist", ["art"]) == [(3, 6)]
    assert term_spans("Glassformer는 좋다", ["Glassformer"]) == [(0, 11)]
    assert term_spans("New York and York", ["York", "New York"]) == [(0, 8), (13, 17)]
    assert term_spans("anything", ["", " "]) == []


@given(st.text(alphabet="ab .!?{}%\n。가"))
def test_any_text_is_put_together_again(text: str) -> None:
    document = parse_text(text)
    unchanged = [same_order(source.text) for source in document.sources]
    assert "".join(document.render(unchanged).upper().split()) == "".join(text.upper().split())
