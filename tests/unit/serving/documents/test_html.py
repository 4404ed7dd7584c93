"""HTML: the markup survives, inline tags follow their words."""

from __future__ import annotations

from html.parser import HTMLParser
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from word_by_word import translated

from glassformer.serving.documents.html import NO_END_TAG, parse_html, tokens
from glassformer.serving.jobs import Hypothesis

# HTML, its translation in the same order, and in reversed order; None if the same as in capitals.
CASES = [
    ("<p>Hello <b>big world</b>!</p>", "<p>HELLO <b>BIG WORLD</b>!</p>", "<p><b>WORLD</b>! <b>BIG</b> HELLO</p>"),
    ("<p>a <b>b <i>c</i></b> d</p>", "<p>A <b>B <i>C</i></b> D</p>", "<p>D <b><i>C</i> B</b> A</p>"),
    ("<b>One. Two</b> three.", "<b>ONE. TWO</b> THREE.", "<b>ONE.</b> THREE. <b>TWO</b>"),
    ("one<br>two three", "ONE<br>TWO THREE", "THREE TWO ONE<br>"),
    ("First.<br>Second one.<br/>", "FIRST.<br>SECOND ONE.<br/>", "FIRST.<br>ONE. SECOND<br/>"),
    ("a <!-- note --> b", "A <!-- note --> B", "B A <!-- note -->"),
    ("x <img src='a>b'> y", "X <img src='a>b'> Y", "Y X <img src='a>b'>"),
    ("Go <i class=icon></i> home", "GO <i class=icon></i> HOME", "HOME GO <i class=icon></i>"),
    ("A &amp; B &lt; C", "A &amp; B &lt; C", "C &lt; B &amp; A"),
    ("H<sub>2</sub>O is wet", "H<sub>2</sub>O IS WET", "WET IS H<sub>2</sub>O"),
    ("<span class=first>O</span>nce more", "<span class=first>ONCE</span> MORE", "MORE <span class=first>ONCE</span>"),
    ("run <code>ls -l</code> now", "RUN <code>ls -l</code> NOW", "NOW <code>ls -l</code> RUN"),
    ('<p translate="no">Keep this</p>but', '<p translate="no">Keep this</p>BUT', '<p translate="no">Keep this</p>BUT'),
    ("by <span translate='no'>Acme <b>Inc</b></span>.", "BY <span translate='no'>Acme <b>Inc</b></span>.",
     "<span translate='no'>Acme <b>Inc</b></span>. BY"),
    ('<span class="x notranslate">Acme</span> wins', '<span class="x notranslate">Acme</span> WINS',
     'WINS <span class="x notranslate">Acme</span>'),
    ("<pre>a\n  b</pre><p>c</p>", "<pre>a\n  b</pre><p>C</p>", "<pre>a\n  b</pre><p>C</p>"),
    ("<script>if (a<b) {x()}</script><style>p>a{}</style>hi",
     "<script>if (a<b) {x()}</script><style>p>a{}</style>HI", "<script>if (a<b) {x()}</script><style>p>a{}</style>HI"),
    ("Dear {user}, <b>hello</b> %1$s!", "DEAR {user}, <b>HELLO</b> %1$s!", "<b>HELLO</b> %1$s! DEAR {user},"),
    ("<td>one</td> <td>two three</td>", "<td>ONE</td> <td>TWO THREE</td>", "<td>ONE</td> <td>THREE TWO</td>"),
    ("<!DOCTYPE html>\n<p>x</p>", "<!DOCTYPE html>\n<p>X</p>", "<!DOCTYPE html>\n<p>X</p>"),
]  # fmt: skip


@pytest.mark.parametrize(("html", "same", "reverse"), CASES, ids=range(len(CASES)))
def test_markup_follows_its_words(html: str, same: str, reverse: str) -> None:
    assert translated(parse_html(html)) == same
    assert translated(parse_html(html), reverse=True) == reverse


def test_a_line_break_does_not_split_a_sentence() -> None:
    document = parse_html("<p>The quick\n   brown <b>fox\njumps</b> over.\nNext.</p>")
    assert [source.text for source in document.sources] == ["The quick brown fox jumps over.", "Next."]
    assert translated(document) == "<p>THE QUICK BROWN <b>FOX JUMPS</b> OVER.\nNEXT.</p>"


def test_tags_without_a_partner_survive() -> None:
    assert translated(parse_html("<p>a <b>bc</p><p>x</i> yz</p>")) == "<p>A <b>BC</p><p>X</i> YZ</p>"
    assert translated(parse_html("<b>a <i>b</b> c</i> d")) == "<b>A <i>B</b> C</i> D"


def test_an_element_without_a_word_in_the_translation_stays() -> None:
    document = parse_html("<p><b>The</b> <i>very <u>old</u></i> cat</p>")
    text = document.render([Hypothesis("고양이", 0.0, ((3, 0),))])
    assert text == "<p><b></b> <i></i> <i><u></u></i> 고양이</p>" or text.count("<b>") == text.count("<u>") == 1


def test_translated_text_is_escaped() -> None:
    document = parse_html("<p>one</p>")
    assert (
        document.render([Hypothesis("<script>x</script> & y", 0.0)]) == "<p>&lt;script&gt;x&lt;/script&gt; &amp; y</p>"
    )
    document = parse_html("<p>one <b>two</b></p>")
    assert "<script>" not in document.render([Hypothesis("<script> </script>", 0.0, ((0, 0), (1, 1)))])


def test_what_follows_an_unclosed_tag_is_kept() -> None:
    html = "<p>one</p> two <a href='x <b>three"
    assert translated(parse_html(html)) == "<p>ONE</p> TWO <a href='x <b>three"


PIECES = [
    "<b>", "</b>", "<i>", "</i>", "<p>", "</p>", "<br>", "<!-- c -->", "word", " ", ".", "One", "{x}", "<", "&amp;",
    "<code>", "</code>", "<span translate=no>", "</span>", "<img>", "가", "H<sub>2</sub>O", "<a '", "\n",
]  # fmt: skip
fragments = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


class Nesting(HTMLParser):
    """Collects start and end tags, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def is_balanced(self) -> bool:
        stack: list[str] = []
        for tag in self.tags:
            if not tag.startswith("/"):
                stack += [] if tag in NO_END_TAG else [tag]
            elif not stack or stack.pop() != tag[1:]:
                return False
        return not stack


@given(fragments)
def test_tokens_are_the_document(text: str) -> None:
    assert "".join(token.raw for token in tokens(text)) == text


@example("가<span translate=no>{x}</span>", [])  # a protected element that continues a word
@given(fragments, st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_no_word_tag_or_placeholder_is_lost(text: str, alignment: list[tuple[int, int]]) -> None:
    document = parse_html(text)
    result = document.render([Hypothesis(source.text, 0.0, tuple(alignment)) for source in document.sources])
    for tag in ("<p>", "</p>", "<br>", "<!-- c -->", "{x}", "<img>"):
        assert result.count(tag) == text.count(tag)
    for tag in ("<b>", "</b>", "<i>", "</i>"):  # written twice if the words of an element are apart
        assert result.count(tag) >= text.count(tag)
    for word in ("word", "One", "가"):
        assert result.count(word) >= text.count(word)


@given(fragments, st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_well_nested_markup_stays_well_nested(text: str, alignment: list[tuple[int, int]]) -> None:
    if "'" in text or not Nesting(text).is_balanced():
        return
    document = parse_html(text)
    assert Nesting(document.render([Hypothesis(s.text, 0.0, tuple(alignment)) for s in document.sources])).is_balanced()


@pytest.mark.parametrize(
    "piece", ["<a ", '<a "', "<!--", "<!", "<b>", "</b>", "<script>", "{", "<", "a. ", "%(", "<i>a"]
)
def test_the_time_is_linear(piece: str) -> None:
    def seconds(size: int) -> float:
        began = process_time()  # other processes of the machine do not count
        document = parse_html(piece * (size // len(piece)))
        document.render([Hypothesis(source.text, 0.0) for source in document.sources])
        return process_time() - began

    assert min(seconds(16_000) for _ in range(2)) < 40 * (min(seconds(1_600) for _ in range(3)) + 0.005)
