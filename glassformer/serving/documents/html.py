"""HTML documents: the markup is kept as it is written; the text between block elements is translated.

Nothing is lost: tokens are slices of the document, and tokens without text are written as they were read. The time is
linear in the size of the document, whatever it contains.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from glassformer.serving.documents.document import Document
from glassformer.serving.documents.placeholders import PLACEHOLDER
from glassformer.serving.documents.projection import PARTS, Piece, join
from glassformer.serving.documents.segment import WORD, Element, Kept, Path, Segment
from glassformer.serving.documents.sentences import Span

INLINE = frozenset(
    """a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q s samp small span strike
    strong sub sup time tt u var""".split()  # noqa: SIM905
)
NO_END_TAG = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
INLINE_WITHOUT_END = frozenset({"br", "img", "input", "wbr"})
NOT_TRANSLATED = frozenset(
    "code kbd samp var pre textarea svg math template iframe object noscript".split()  # noqa: SIM905
)
RAW_TEXT = frozenset({"script", "style"})  # their content is no markup

TOKEN = re.compile(
    r"""
    (?P<comment> <!--.*?(?:-->|\Z) | <[!?/](?![A-Za-z])[^>]*(?:>|\Z) | <![A-Za-z\[][^>]*(?:>|\Z) )
    | (?P<end> </[A-Za-z][^>]*(?:>|\Z) )
    | (?P<start> <[A-Za-z](?:[^>"'] | "[^"]*" | '[^']*')*+> )
    | (?P<unclosed> <[A-Za-z].*\Z )        # a tag that does not end: browsers ignore it, too
    | (?P<text> <?[^<]+ | < )
    """,
    re.VERBOSE | re.DOTALL,
)
NAME = re.compile(r"[^\s/>]+")
KEEPS = re.compile(r"""\btranslate\s*=\s*["']?no\b|\bclass\s*=\s*["']?[^"'>]*\bnotranslate\b""", re.I)


class Token(NamedTuple):
    """A slice of the document: text, a comment, a tag, or a whole element whose content is not translated.

    Attributes:
        content: the text inside an element that is not translated.
    """

    kind: str  # "text", "comment", "start", "end", "void" or "kept"
    raw: str
    name: str = ""
    content: str = ""

    @property
    def is_inline(self) -> bool:
        return self.kind in ("text", "comment") or self.name in INLINE | INLINE_WITHOUT_END


def parse_html(text: str, terms: Sequence[str] = ()) -> Document:
    """Return HTML as a document. `terms` are not translated."""
    parts: list[str | Segment] = []
    for is_inline, run in groupby(kept_elements(list(tokens(text))), key=lambda token: token.is_inline):
        found = list(run)
        raw = "".join(token.raw for token in found)
        segment = inline_segment(found, escape=_escape, unescape=html.unescape) if is_inline else None
        parts.append(segment if segment is not None and segment.has_words else raw)
    return Document(parts, terms)


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a document. Together they are the document."""
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        assert found is not None and found.lastgroup is not None
        at, kind, raw = found.end(), found.lastgroup, found[0]
        if kind in ("start", "end"):
            tag = NAME.search(raw, 1 if kind == "start" else 2)
            name = tag[0].lower() if tag else ""
            if name in NO_END_TAG or (raw.endswith("/>") and kind == "start"):
                kind = "void"
            yield Token(kind, raw, name)
            if kind == "start" and name in RAW_TEXT:
                end = re.compile(rf"</{name}\b", re.I).search(text, at)
                stop = end.start() if end else len(text)
                yield Token("kept", text[at:stop])
                at = stop
        else:
            yield Token("comment" if kind == "unclosed" else kind, raw)


def kept_elements(found: list[Token]) -> Iterator[Token]:
    """Yield tokens in which every element that is not translated is one token."""
    ends = _matching_ends(found)
    at = 0
    while at < len(found):
        token = found[at]
        if token.kind == "start" and (token.name in NOT_TRANSLATED or KEEPS.search(token.raw)) and at in ends:
            inside = found[at + 1 : ends[at]]
            content = "".join(one.raw for one in inside if one.kind == "text")
            raw = token.raw + "".join(one.raw for one in inside) + found[ends[at]].raw
            is_inline = token.name in INLINE and all(one.is_inline for one in inside)
            yield Token("kept", raw, token.name if is_inline else "", content)
            at = ends[at]
        else:
            yield token
        at += 1


def _can_be_seen(content: str, before: str) -> bool:
    """Return whether a model can translate around a text: it contains no placeholder and continues no word."""
    return not PLACEHOLDER.search(content) and not before[-1:].isalnum()


def inline_segment(found: list[Token], *, escape: Callable[[str], str], unescape: Callable[[str], str]) -> Segment:
    """Return a run of inline tokens as a segment. A tag without its partner is kept at its place."""
    ends = _matching_ends(found)
    texts = [0, *accumulate(token.kind in ("text", "kept") and not token.raw.isspace() for token in found)]
    segment, path, closing = Segment(escape), list[Element](), set[int]()
    at = 0
    while at < len(found):
        token = found[at]
        here: Path = tuple(path)
        if token.kind == "text":
            segment.append(unescape(token.raw), here)
        elif token.kind == "kept" and token.content.strip() and _can_be_seen(token.content, segment.text):
            start = len(segment.text)
            segment.append_visible(unescape(token.content), here)
            segment.keep(start, token.raw, here)
        elif token.kind == "start" and at in ends and texts[at] < texts[ends[at]]:
            path.append(Element(token.raw, found[ends[at]].raw))
            closing.add(ends[at])
        elif token.kind == "start" and at in ends:  # an element without text, such as an icon
            segment.append_kept("".join(one.raw for one in found[at : ends[at] + 1]), here)
            at = ends[at]
        elif at in closing:
            path.pop()
        else:
            segment.append_kept(token.raw, here, is_break=token.name == "br")
        at += 1
    _keep_formulas(segment)
    return segment


def _matching_ends(found: list[Token]) -> dict[int, int]:
    """Return the end tag of each start tag that has one, by their numbers; elements never overlap."""
    ends: dict[int, int] = {}
    open_tags: list[int] = []
    count: dict[str, int] = {}
    for number, token in enumerate(found):
        if token.kind == "start":
            open_tags.append(number)
            count[token.name] = count.get(token.name, 0) + 1
        elif token.kind == "end" and count.get(token.name):
            while True:
                start = open_tags.pop()
                count[found[start].name] -= 1
                if found[start].name == token.name:
                    break
            ends[start] = number
    return ends


def _keep_formulas(segment: Segment) -> None:
    """Keep words such as H<sub>2</sub>O: with a digit, and with markup inside the word."""
    taken = {at for kept in segment.kept for at in range(*kept.span)}
    for word in WORD.finditer(segment.text):
        parts = PARTS.fullmatch(word[0])
        assert parts is not None
        core = Span(word.start() + parts.start(2), word.start() + parts.end(2))
        paths = segment.paths[core.start : core.end]
        if len(set(paths)) < 2 or not any(map(str.isdigit, parts[2])):
            continue
        if not taken.isdisjoint(range(*core)):
            continue
        around = min(paths, key=len)
        pieces = [
            Piece(segment.escape("".join(char for char, _ in run)), path[len(around) :], (False, False))
            for path, run in groupby(zip(parts[2], paths, strict=True), key=lambda pair: pair[1])
        ]
        segment.kept.append(Kept(core, join([("", pieces)]), around))
    segment.kept.sort(key=lambda kept: kept.span)


def _escape(text: str) -> str:
    return html.escape(text, quote=False)
