"""Subtitles: numbers and times are kept, two lines stay two lines."""

from __future__ import annotations

from word_by_word import translated

from glassformer.serving.documents.subtitles import parse_subtitles, wrap

SRT = """1
00:00:01,000 --> 00:00:02,500
<i>Hello my friend,
how are you?</i>

2
00:00:03,000 --> 00:00:04,000 X1:40
- Yes.
- No, {\\an8} never & ever.

3
00:01:00,000 --> 00:01:01,000
♪ ♪
"""


def test_times_tags_and_speakers_survive() -> None:
    expected = (
        SRT.replace("Hello my friend,\nhow are you?", "HELLO MY FRIEND,\nHOW ARE YOU?")
        .replace("Yes.", "YES.")
        .replace("No,", "NO,")
        .replace("never & ever", "NEVER & EVER")
    )
    assert translated(parse_subtitles(SRT)) == expected
    assert translated(parse_subtitles(SRT.replace("\n", "\r\n"))) == expected.replace("\n", "\r\n")


def test_a_subtitle_of_two_lines_is_one_sentence() -> None:
    assert parse_subtitles(SRT).sources[0].text == "Hello my friend, how are you?"


def test_lines_are_balanced_and_tags_have_no_width() -> None:
    assert wrap("one two three four five six", lines=2) == "one two three\nfour five six"
    assert wrap("<i>a b</i>", lines=2).count("\n") == 1
    assert wrap('<font color="red">a b c d</font>', lines=2) == '<font color="red">a b\nc d</font>'
    assert wrap("word", lines=3) == "word"
    assert wrap("a b c d", lines=1) == "a b c d"


def test_any_other_text_is_kept() -> None:
    assert translated(parse_subtitles("no subtitles here\n\nat all")) == "no subtitles here\n\nat all"
