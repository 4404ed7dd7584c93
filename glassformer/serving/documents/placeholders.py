"""Parts of a text that are never translated: placeholders of programs, web and mail addresses.

A model has seldom seen `%1$s` in training. It is taken out of the sentence before the translation and put back at the
place that the word alignment gives, so it survives with every model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from glassformer.serving.documents.sentences import Span

PLACEHOLDER = re.compile(
    r"""
    \{\{[^{}\n]*\}\} | [$\#%]?\{[^{}\n]{0,80}\}                          # {{name}}  ${name}  %{name}  {0}  {\an8}
    | %\([A-Za-z_]\w*\)[-\#0+]?\d*(?:\.\d+)?[sdfiouxXeEgGr]              # %(name)s
    | (?<![\w%])%(?:\d+\$)?[-\#0+]?\d*(?:\.\d+)?(?:l{1,2}|z)?[sdfiuxXeEgGc@](?![\w])   # %s  %1$s  %05.2f  %@
    | (?:https?|ftp)://[^\s<>"']*[^\s<>"'.,;:!?)\]]                      # web addresses
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+                                       # mail addresses
    """,
    re.VERBOSE,
)
TRAILING = ".,;:!?…"
PAIRS = ("()", "[]", "“”", "«»", "‘’")


def placeholder_spans(text: str) -> Iterator[Span]:
    """Yield the placeholders of a text.

    What is written next to a placeholder without a space (letters, quotes, a pair of brackets) belongs to it, except
    for the punctuation that follows.
    """
    end = 0
    for found in PLACEHOLDER.finditer(text):
        if found.start() < end:
            continue  # part of the placeholder before it
        start = found.start()
        while start > end and not text[start - 1].isspace():
            start -= 1
        end = found.end()
        while end < len(text) and not text[end].isspace():
            end += 1
        while end > found.end() and (text[end - 1] in TRAILING or _is_alone(text[end - 1], text[start:end])):
            end -= 1
        while start < found.start() and _is_alone(text[start], text[start:end]):
            start += 1
        yield Span(start, end)


def _is_alone(bracket: str, text: str) -> bool:
    """Return whether a bracket has no partner in a text."""
    return any(bracket in pair and not (pair[0] in text and pair[1] in text) for pair in PAIRS)


def term_spans(text: str, terms: Iterable[str]) -> list[Span]:
    """Return where terms occur as whole words; a longer term is found first, and no two spans overlap.

    A Korean particle may follow a term without a space.
    """
    longest_first = sorted({term for term in terms if term.strip()}, key=len, reverse=True)
    if not longest_first:
        return []
    pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?![^\W가-힣])"
    return [Span(*found.span()) for found in re.finditer(pattern, text)]
