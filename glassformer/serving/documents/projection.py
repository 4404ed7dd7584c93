"""Projection of markup, placeholders and untranslated terms into a translation, by the word alignment.

Every word of the translation gets the elements of the source word that it is aligned with. The output is therefore
always well nested; an element whose words are not adjacent in the translation is written twice.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from glassformer.serving.documents.segment import Kept, Path, Segment, Sentence
from glassformer.serving.documents.sentences import Span

PARTS = re.compile(r"(\W*)(.*?)(\W*)", re.DOTALL)  # punctuation, word, punctuation
QUOTES_AND_STOPS = "\"'“”‘’«»()[].,;:!?…"
BEFORE, BEFORE_PUNCTUATION, AFTER = range(3)


@dataclass(frozen=True)
class Piece:
    """A piece of output: markup text, the elements around it, and whether a space may be at its sides."""

    raw: str
    path: Path
    spaces: tuple[bool, bool] = (True, True)
    is_break: bool = False
    is_word: bool = True


class SourceWord(NamedTuple):
    """A source word without the punctuation around it, and the paths of punctuation, word, punctuation."""

    span: Span
    core: Span
    paths: tuple[Path, Path, Path]
    has_letters: bool


class Place(NamedTuple):
    """A place in the translation: a target word, and `BEFORE`, `BEFORE_PUNCTUATION` or `AFTER`."""

    word: int
    side: int


class Replacement(NamedTuple):
    """What is written instead of a target word; `kept` is None for further words of the same term."""

    before: str
    kept: Kept | None
    after: str


class Projection:
    """One sentence of a segment and its translation."""

    def __init__(self, segment: Segment, sentence: Sentence, text: str, alignment: Iterable[tuple[int, int]]) -> None:
        self.segment, self.sentence = segment, sentence
        self.words = [_source_word(segment, span) for span in sentence.words]
        self.targets = text.split()
        self.sources_of: list[list[int]] = [[] for _ in self.targets]
        self.targets_of: list[list[int]] = [[] for _ in self.words]
        for source, target in sorted(set(alignment)) or _diagonal(len(self.words), len(self.targets)):
            if 0 <= source < len(self.words) and 0 <= target < len(self.targets):
                self.sources_of[target].append(source)
                self.targets_of[source].append(target)
        self.paths = self._target_paths()

    def pieces(self) -> list[Piece]:
        """Return the output of the sentence."""
        replaced, inserted = self._replacements()
        inserted += [(self._place(one), one) for one in self.sentence.kept if not one.is_visible]
        inserted += self._lost_elements(replaced)
        at: dict[tuple[int, int], list[Piece]] = {}
        for place, one in inserted:
            at.setdefault(place, []).append(Piece(one.raw, one.path, one.spaces, one.is_break, is_word=False))
        pieces: list[Piece] = []
        for number, word in enumerate(self.targets):
            before, inside, after = (at.get((number, side), []) for side in (BEFORE, BEFORE_PUNCTUATION, AFTER))
            *start, end = self._word_pieces(number, word, replaced.get(number))
            pieces += [*before, *start, *inside, end, *after]
        return [piece for piece in [*pieces, *at.get((len(self.targets), BEFORE), [])] if piece.raw]

    def _word_pieces(self, number: int, word: str, replacement: Replacement | None) -> list[Piece]:
        """Return three pieces: the punctuation before a target word, the word, and the punctuation after it."""
        found = PARTS.fullmatch(word)
        assert found is not None
        before, core, after = found.groups() if found[2] else ("", word, "")
        paths, escape = self.paths[number], self.segment.escape
        raw, path = escape(core), paths[1]
        if replacement is not None:
            before, after = replacement.before, replacement.after
            raw, path = (replacement.kept.raw, replacement.kept.path) if replacement.kept else ("", path)
        return [
            Piece(escape(before), paths[0], (True, False)),
            Piece(raw, path),
            Piece(escape(after), paths[2], (False, True)),
        ]

    # ------------------------------------------------------------------------------ paths of target words

    def _source_of(self, target: int) -> int | None:
        """Return the source word that a target word belongs to: a word for a word, punctuation for punctuation."""
        sources = self.sources_of[target]
        same = [source for source in sources if self.words[source].has_letters == _has_letters(self.targets[target])]
        return next(iter(same or sources), None)

    def _target_paths(self) -> list[tuple[Path, Path, Path]]:
        """Return the paths of the punctuation before, the word, and the punctuation after each target word.

        An unaligned word has the elements that the aligned words on both sides of it share.
        """
        sources = [self._source_of(target) for target in range(len(self.targets))]
        found: list[tuple[Path, Path, Path]] = []
        for target, source in enumerate(sources):
            if source is not None:
                found.append(self.words[source].paths)
                continue
            left = next((one for one in reversed(sources[:target]) if one is not None), None)
            right = next((one for one in sources[target:] if one is not None), None)
            shared = self._shared(range(len(self.words)) if left is None or right is None else (left, right))
            found.append((shared, shared, shared))
        return found

    def _shared(self, sources: Iterable[int]) -> Path:
        """Return the elements around all these source words."""
        paths = [path for source in sources for path in self.words[source].paths]
        shared = paths[0]
        for path in paths:
            shared = common(shared, path)
        return shared

    # ------------------------------------------------------------------------------ untranslated parts

    def _replacements(self) -> tuple[dict[int, Replacement], list[tuple[Place, Kept]]]:
        """Return the target words that untranslated terms replace, and the terms that are inserted instead."""
        replaced: dict[int, Replacement] = {}
        inserted: list[tuple[Place, Kept]] = []
        for kept in [one for one in self.sentence.kept if one.is_visible]:
            term = " ".join(self.segment.text[kept.span.start : kept.span.end].split())
            sources = [i for i, word in enumerate(self.words) if kept.span.start <= word.core.start < kept.span.end]
            free = [target for target in range(len(self.targets)) if target not in replaced]
            if found := self._find(term, free):
                words = " ".join(self.targets[target] for target in found)
                at = words.casefold().index(term.casefold())
                before, after = words[:at], words[at + len(term) :]
            elif found := [t for t in free if self._source_of(t) in sources and _has_letters(self.targets[t])]:
                before, after = _punctuation([self.targets[target] for target in found])
            else:
                inserted.append((self._before(sources[0]) if sources else Place(len(self.targets), BEFORE), kept))
                continue
            replaced |= dict.fromkeys(found, Replacement("", None, ""))
            replaced[found[0]] = Replacement(before, kept, after)
        return replaced, inserted

    def _find(self, term: str, free: list[int]) -> list[int]:
        """Return the target words that are equal to a term, up to punctuation around them."""
        size, unused = term.count(" ") + 1, set(free)
        for start in range(len(self.targets) - size + 1):
            words = " ".join(self.targets[start : start + size])
            numbers = list(range(start, start + size))
            same = term.casefold() in (words.casefold(), words.casefold().strip(QUOTES_AND_STOPS))
            if same and unused.issuperset(numbers):
                return numbers
        return []

    def _place(self, kept: Kept) -> Place:
        """Return where to insert what the model has not seen: next to the words that it was next to.

        Markup at the beginning or the end of the sentence stays there.
        """
        at = kept.span.start
        if not kept.is_word and at <= self.words[0].span.start:
            return Place(0, BEFORE)
        if not kept.is_word and at >= self.words[-1].span.end:
            return Place(len(self.targets), BEFORE)
        following = bisect_left(self.words, at, key=lambda word: word.span.start)
        if following:
            word = self.words[following - 1]
            if at < word.span.end or (at == word.span.end and not kept.spaces[0]):
                if at <= word.core.start:
                    return self._before(following - 1)
                return self._after(following - 1, BEFORE_PUNCTUATION if word.core.end <= at < word.span.end else AFTER)
        if following < len(self.words) and (following == 0 or not kept.spaces[1]):
            return self._before(following)
        return self._after(following - 1, AFTER)

    def _before(self, source: int) -> Place:
        targets = next((targets for targets in self.targets_of[source:] if targets), [len(self.targets)])
        return Place(targets[0], BEFORE)

    def _after(self, source: int, side: int) -> Place:
        for targets in reversed(self.targets_of[: source + 1]):
            if words := [t for t in targets if side == AFTER or _has_letters(self.targets[t])]:
                return Place(words[-1], side)
        return Place(0, BEFORE)

    def _lost_elements(self, replaced: dict[int, Replacement]) -> list[tuple[Place, Kept]]:
        """Return the elements that no target word has, to insert them empty."""
        written = {element for paths in self.paths for path in paths for element in path}
        written |= {element for kept in self.sentence.kept for element in kept.path}
        lost: list[tuple[Place, Kept]] = []
        for number, word in enumerate(self.words):
            around = [element for element in word.paths[1] if element in written]
            empty = [element for element in word.paths[1] if element not in written]
            if empty:
                tags = [element.start_tag for element in empty] + [element.end_tag for element in reversed(empty)]
                lost.append((self._before(number), Kept(Span(0, 0), "".join(tags), tuple(around))))
                written.update(empty)
        return lost


def join(groups: Iterable[tuple[str, Sequence[Piece]]]) -> str:
    """Write pieces with their elements. Each group of pieces is a sentence, after the whitespace before it."""
    out: list[str] = []
    path: Path = ()
    for gap, pieces in groups:
        for number, piece in enumerate(pieces):
            shared = common(path, piece.path)
            out += [element.end_tag for element in reversed(path[len(shared) :])]
            out.append(gap if number == 0 else _separator(pieces, number))
            out += [element.start_tag for element in piece.path[len(shared) :]]
            out.append(piece.raw)
            path = piece.path
    return "".join([*out, *(element.end_tag for element in reversed(path))])


def common(one: Path, other: Path) -> Path:
    """Return the elements that two paths begin with."""
    size = 0
    while size < min(len(one), len(other)) and one[size] is other[size]:
        size += 1
    return one[:size]


def _separator(pieces: Sequence[Piece], number: int) -> str:
    """Return the space before a piece. Two words always have a space or a line break between them."""
    before, piece = pieces[number - 1], pieces[number]
    if before.spaces[1] and piece.spaces[0]:
        return " "
    if before.is_word or not piece.is_word or not piece.spaces[0]:
        return ""
    at = number - 1
    while at >= 0 and not pieces[at].is_word:  # the parts between two words
        if pieces[at].is_break or (at > 0 and pieces[at - 1].spaces[1] and pieces[at].spaces[0]):
            return ""
        at -= 1
    return " " if at >= 0 else ""


def _source_word(segment: Segment, span: Span) -> SourceWord:
    found = PARTS.fullmatch(segment.text, *span)
    assert found is not None
    core = Span(*found.span(2)) if found[2] else span
    paths = segment.paths[span.start], segment.paths[core.start], segment.paths[span.end - 1]
    return SourceWord(span, core, paths, _has_letters(segment.text[span.start : span.end]))


def _punctuation(words: Sequence[str]) -> tuple[str, str]:
    """Return the quotes and stops before and after one of these words."""
    bare = [word.strip(QUOTES_AND_STOPS) for word in words]
    sides = [word.partition(core) if core else ("", "", "") for word, core in zip(words, bare, strict=True)]
    return max((side[0] for side in sides), key=len), max((side[2] for side in sides), key=len)


def _diagonal(sources: int, targets: int) -> list[tuple[int, int]]:
    """Return an alignment for models that have none: the n-th word belongs to the n-th word."""
    return [(min(sources - 1, target * sources // targets), target) for target in range(targets)]


def _has_letters(word: str) -> bool:
    return any(map(str.isalnum, word))
