"""SubRip subtitles (.srt): numbers and times are kept, the text of each subtitle is translated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from glassformer.serving.documents.document import Document
from glassformer.serving.documents.html import inline_segment, kept_elements, tokens
from glassformer.serving.documents.segment import Segment

TIMES = re.compile(r"\s*\d+:\d\d:\d\d[,.]\d+\s*-->\s*\d+:\d\d:\d\d[,.]\d+")
SPEAKER = re.compile(r"\s*[-–—]\s*")


def parse_subtitles(text: str, terms: Sequence[str] = ()) -> Document:
    """Return subtitles as a document. `terms` are not translated."""
    return Document(_parts(text.splitlines(keepends=True)), terms)


def _parts(lines: list[str]) -> Iterator[str | Segment]:
    """Yield the lines outside subtitles, and the text of each subtitle."""
    at = 0
    while at < len(lines):
        yield lines[at]
        at += 1
        if TIMES.match(lines[at - 1]):
            end = next((number for number in range(at, len(lines)) if not lines[number].strip()), len(lines))
            yield from _subtitle(lines[at:end])
            at = end


def _subtitle(lines: list[str]) -> Iterator[str | Segment]:
    """Yield the text of a subtitle: one segment, or one per line if each line has its own speaker."""
    if any(SPEAKER.match(line) for line in lines):
        for line in lines:
            start = SPEAKER.match(line)
            size = start.end() if start else 0
            yield line[:size]
            yield from _segment(line[size:])
    elif lines:
        yield from _segment("".join(lines))


def _segment(text: str) -> Iterator[str | Segment]:
    body = text.rstrip("\r\n")
    segment = inline_segment(list(kept_elements(list(tokens(body)))), escape=str, unescape=str)
    newline = "\r\n" if "\r\n" in body else "\n"
    segment.finish = partial(wrap, lines=body.count("\n") + 1, newline=newline)
    yield segment if segment.has_words else body
    yield text[len(body) :]


def wrap(text: str, *, lines: int, newline: str = "\n") -> str:
    """Break text into at most this many lines of similar length. Tags have no width and are not broken."""
    words = re.findall(r"(?:<[^<>]*>|[^\s<]|<)+", text)
    total = sum(map(_width, words)) + len(words) - 1
    out, done = "", 0
    for number, word in enumerate(words):
        line = out.count(newline)
        is_full = line + 1 < lines and done + _width(word) / 2 > total * (line + 1) / lines
        out += ("" if number == 0 else newline if is_full else " ") + word
        done += _width(word) + 1
    return out


def _width(word: str) -> int:
    return len(re.sub(r"<[^<>]*>", "", word))
