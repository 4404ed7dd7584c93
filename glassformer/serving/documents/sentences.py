"""Sentence boundaries, for languages that end sentences with . ! ? or their CJK forms."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from typing import NamedTuple

# A sentence end: closing quotes and brackets belong to the sentence. The CJK forms need no space after them.
END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）)\]]*")
WORD_BEFORE = re.compile(r"\S+$")
NEXT_CHARACTER = re.compile(r"\s*[\"'“‘«(\[¿¡-]*(.?)")
INITIALS = re.compile(r"(?:[^\W\d_]\.)+")  # J. · z.B. · U.S. · e.g.
NUMBER = re.compile(r"\W*(?:\d{1,2}|[IVXLC]+)\.")  # an ordinal or the number of a list entry: 3. Oktober
ABBREVIATIONS = frozenset(
    """mr mrs ms dr prof sr jr st mt no nos vol fig sec ch pp vs etc inc ltd co corp dept est approx cf al ed eds rev
    gen col capt lt sgt gov sen rep hon jan feb mar apr jun jul aug sep sept oct nov dec bzw ca evtl ggf hr fr nr str
    usw vgl bspw inkl zzgl mme mlle m mm av env ex p art réf""".split()  # noqa: SIM905 (a list of this length reads worse)
)


class Span(NamedTuple):
    """A range of characters."""

    start: int
    end: int


def sentence_spans(text: str, *, whole: Sequence[Span] = (), removed: Collection[int] = ()) -> list[Span]:
    """Return the sentences of a text, without the whitespace around them.

    Args:
        whole: spans inside which no sentence ends, in order.
        removed: where a word was taken out of the text. A sentence may begin with it.
    """
    places = sorted(removed)
    ends = [found.end() for found in END.finditer(text) if _is_boundary(text, found, places)]
    starts = [span.start for span in whole]
    ends = [end for end in ends if not (before := bisect_left(starts, end)) or whole[before - 1].end <= end]
    spans = []
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        part = text[start:end]
        if stripped := part.strip():
            first = start + len(part) - len(part.lstrip())
            spans.append(Span(first, first + len(stripped)))
    return spans


def _is_boundary(text: str, found: re.Match[str], removed: list[int]) -> bool:
    """Return whether punctuation ends a sentence: not after abbreviations, nor before a lower-case letter."""
    following = NEXT_CHARACTER.match(text, found.end())
    if following is None or not following[1]:
        return False  # the end of the text
    if found[0][0] in "。！？｡":
        return True
    if following[1].islower():
        at = bisect_right(removed, found.end())
        if at == len(removed) or removed[at] > following.start(1):
            return False
    if found[0] != ".":
        return True
    before = WORD_BEFORE.search(text, 0, found.end())
    word = before[0] if before else ""
    bare = word.lstrip("\"'“‘«([").removesuffix(".")
    is_abbreviation = bare.lower() in ABBREVIATIONS or INITIALS.fullmatch(bare + ".") is not None
    return not is_abbreviation and NUMBER.fullmatch(word) is None
