"""A document: parts that are kept as they are, and segments whose sentences are translated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from glassformer.serving.documents.projection import Piece, Projection, join
from glassformer.serving.documents.segment import BREAK, Segment, Sentence

CJK = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")  # Chinese and Japanese, which have no spaces


class Translated(Protocol):
    """The translation of a sentence; alignment pairs are (source word, target word), counted from 0."""

    @property
    def text(self) -> str: ...
    @property
    def alignment(self) -> Sequence[tuple[int, int]]: ...


class SourceText(NamedTuple):
    """A sentence as the model sees it, and the terms that must occur in its translation unchanged."""

    text: str
    kept_terms: tuple[str, ...]
    needs_alignment: bool


class Document:
    """Raw parts and segments, in order. `sources` are the sentences to translate; `render` takes their translations."""

    def __init__(self, parts: Iterable[str | Segment], terms: Sequence[str] = ()) -> None:
        self.parts: list[str | tuple[Segment, list[Sentence]]] = []
        for part in parts:
            if isinstance(part, Segment):
                part.protect(terms)
                self.parts.append((part, part.sentences()))
            else:
                self.parts.append(part)
        self.sources = list(self._sources())

    def render(self, translations: Iterable[Translated]) -> str:
        """Return the document with each source replaced by its translation."""
        waiting = iter(translations)
        return "".join(part if isinstance(part, str) else _render(*part, waiting) for part in self.parts)

    def _sources(self) -> Iterator[SourceText]:
        for part in self.parts:
            if isinstance(part, str):
                continue
            segment, sentences = part
            for sentence in sentences:
                if sentence.is_translated:
                    seen = [segment.text[one.span.start : one.span.end] for one in sentence.kept if one.is_visible]
                    terms = tuple(" ".join(term.split()) for term in seen)
                    yield SourceText(sentence.text, terms, sentence.needs_alignment)


def parse_text(text: str, terms: Sequence[str] = ()) -> Document:
    """Return plain text as a document; each line is a segment. `terms` are not translated."""
    parts: list[str | Segment] = []
    for line in re.split(r"(\r\n|\r|\n)", text):
        segment = Segment()
        segment.append(line)
        parts.append(segment if segment.has_words else line)
    return Document(parts, terms)


def _render(segment: Segment, sentences: list[Sentence], translations: Iterator[Translated]) -> str:
    groups: list[tuple[str, list[Piece]]] = []
    for sentence in sentences:
        pieces = _pieces(segment, sentence, translations)
        gap = sentence.gap.replace(BREAK, "")
        if groups and not sentence.gap and pieces and not CJK.match(pieces[0].raw):
            gap = " "  # from a language without spaces between sentences into one with them
        groups.append((gap, pieces))
    last = sentences[-1]
    end = max([last.span.end, *(one.span.end for one in last.kept)])
    return segment.finish(join(groups) + segment.text[end:].replace(BREAK, ""))


def _pieces(segment: Segment, sentence: Sentence, translations: Iterator[Translated]) -> list[Piece]:
    if not sentence.is_translated:
        same = [(number, number) for number in range(len(sentence.words))]
        return Projection(segment, sentence, sentence.text, same).pieces()
    translation = next(translations)
    if not sentence.needs_alignment:
        return [Piece(segment.escape(translation.text), segment.paths[sentence.span.start])]
    return Projection(segment, sentence, translation.text, translation.alignment).pieces()
