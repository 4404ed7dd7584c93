"""A run of text with inline markup, such as a paragraph, and the sentences in it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from glassformer.serving.documents.placeholders import TRAILING, placeholder_spans, term_spans
from glassformer.serving.documents.sentences import Span, sentence_spans

WORD = re.compile(r"\S+")
CLOSING = (*TRAILING, *")]”»’")  # what may follow a word without a space
BREAK = "\x1c"  # whitespace that stands for a line break element and is not written


@dataclass(frozen=True, eq=False)
class Element:
    """An inline element, such as `<b>…</b>`. Two elements are equal only if they are the same one."""

    start_tag: str
    end_tag: str


Path = tuple[Element, ...]  # the elements around a character, outermost first


@dataclass(frozen=True)
class Kept:
    """A part of a segment that is not translated: `raw`, in place of the characters of `span`.

    The span is empty for what the model does not see at all: a comment, an empty element, a placeholder.

    Attributes:
        spaces: whether there is a space, or nothing at all, before it and after it.
        is_break: it separates words, as `<br>` does.
        is_word: it stands for a word, as a placeholder does.
    """

    span: Span
    raw: str
    path: Path = ()
    spaces: tuple[bool, bool] = (True, True)
    is_break: bool = False
    is_word: bool = False

    @property
    def is_visible(self) -> bool:
        """Whether the model sees it."""
        return self.span.end > self.span.start


@dataclass(frozen=True)
class Sentence:
    """A sentence of a segment.

    Attributes:
        gap: the whitespace before it.
        span: its characters.
        words: the characters of each word.
        kept: the parts of it that are not translated.
        text: the words with one space between them, which is what the model translates.
        has_markup: its words are not all in the same elements.
    """

    gap: str
    span: Span
    words: list[Span]
    kept: list[Kept]
    text: str
    has_markup: bool

    @property
    def is_translated(self) -> bool:
        return any(map(str.isalnum, self.text))

    @property
    def needs_alignment(self) -> bool:
        """Whether something must be put into the translation, at a place that follows from the word alignment."""
        return bool(self.kept) or self.has_markup


@dataclass
class Segment:
    """Text, the path of each character, and the parts that are not translated, in the order of the text.

    Attributes:
        escape: makes markup of text, as `html.escape` does.
        finish: applied to the translation of the segment.
    """

    escape: Callable[[str], str] = str
    finish: Callable[[str], str] = str
    text: str = ""
    paths: list[Path] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    _ends_with_kept: bool = False

    @property
    def has_words(self) -> bool:
        return any(map(str.isalnum, self.text))

    def append(self, text: str, path: Path = ()) -> None:
        """Append text. Placeholders are taken out of it; the model does not see them."""
        end = 0
        for start, stop in placeholder_spans(text):
            self.append_visible(text[end:start], path)
            if text[stop : stop + 1] in CLOSING:
                # "Hello {name}!" is translated as "Hello!"; in "Hello, {name}!" the mark belongs to the placeholder.
                self._trim()
                while stop < len(text) and text[stop] in TRAILING and not self.text[-1:].isalnum():
                    stop += 1
            self.kept.append(Kept(self._end(), self.escape(text[start:stop]), path, is_word=True))
            self._ends_with_kept = False
            end = stop
        self.append_visible(text[end:], path)

    def append_visible(self, text: str, path: Path = ()) -> None:
        """Append text as it is."""
        if text:
            if self._ends_with_kept:
                self.kept[-1] = replace(self.kept[-1], spaces=(self.kept[-1].spaces[0], text[0].isspace()))
            self._extend(text, path)
            self._ends_with_kept = False

    def append_kept(self, raw: str, path: Path = (), *, is_break: bool = False) -> None:
        """Append markup that is not translated and that the model does not see."""
        if self._ends_with_kept:
            self.kept[-1] = replace(self.kept[-1], spaces=(self.kept[-1].spaces[0], False))
        space_before = not self._ends_with_kept and (not self.text or self.text[-1].isspace())
        self.kept.append(Kept(self._end(), raw, path, (space_before, True), is_break))
        if is_break:
            self._extend(BREAK, path)
        self._ends_with_kept = True

    def keep(self, start: int, raw: str, path: Path = ()) -> None:
        """Keep the text from `start` to the end untranslated. The model sees it."""
        self.kept.append(Kept(Span(start, len(self.text)), raw, path))

    def protect(self, terms: Iterable[str]) -> None:
        """Keep terms untranslated, wherever they occur. The model sees them."""
        taken = [kept.span for kept in self.kept if kept.is_visible]
        starts = [span.start for span in taken]
        for span in term_spans(self.text, terms):
            before = bisect_left(starts, span.end)
            if not before or taken[before - 1].end <= span.start:
                self.kept.append(Kept(span, self.escape(self.text[span.start : span.end]), self.paths[span.start]))
        self.kept.sort(key=lambda kept: kept.span)

    def sentences(self) -> list[Sentence]:
        """Return the sentences. What is between two of them and not translated belongs to the second."""
        whole = [one.span for one in self.kept if one.is_visible]
        spans = sentence_spans(self.text, whole=whole, removed={one.span.start for one in self.kept if one.is_word})
        ends = [span.end for span in spans]
        kept: list[list[Kept]] = [[] for _ in spans]
        for one in self.kept if spans else []:
            kept[min(bisect_left(ends, one.span.start), len(spans) - 1)].append(one)
        found, end = [], 0
        for span, inside in zip(spans, kept, strict=True):
            words = [Span(*word.span()) for word in WORD.finditer(self.text, *span)]
            text = " ".join(self.text[start:stop] for start, stop in words)
            has_markup = len(set(self.paths[span.start : span.end])) > 1
            gap = self.text[end : min([span.start, *(one.span.start for one in inside)])]
            found.append(Sentence(gap, span, words, inside, text, has_markup))
            end = span.end
        return found

    def _end(self) -> Span:
        return Span(len(self.text), len(self.text))

    def _extend(self, text: str, path: Path) -> None:
        self.text += text
        self.paths += [path] * len(text)

    def _trim(self) -> None:
        """Remove the spaces at the end, unless something untranslated is between them."""
        size = max(len(self.text.rstrip()), self.kept[-1].span.end if self.kept else 0)
        self.text, self.paths = self.text[:size], self.paths[:size]
