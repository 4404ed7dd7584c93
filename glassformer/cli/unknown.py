"""The notice about words that are not in the vocabulary of a model."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassformer.text.tokenizer import Tokenizer

SHOWN = 10  # maximal number of words in the notice
WORD = 40  # characters and tokens that are shown of a word
REMEMBERED = 100_000  # words that are not checked again, as texts repeat most words


class UnknownWords:
    """Collects the unknown words of all lines and prints one notice."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._checked: set[str] = set()
        self._found: dict[str, list[str]] = {}

    def check(self, line: str) -> None:
        """Add the unknown words of a line, until the notice is full."""
        if len(self._found) > SHOWN:
            return
        new = [word for word in line.split() if word not in self._checked]
        if len(self._checked) < REMEMBERED:
            self._checked.update(new)
        self._found |= self._tokenizer.unknown_words(" ".join(new)) if new else {}

    def print_notice(self) -> None:
        """Print the notice on standard error if there are unknown words."""
        if self._found:
            words = [_shown(word, pieces) for word, pieces in list(self._found.items())[:SHOWN]]
            more = " and others" if len(self._found) > SHOWN else ""
            print(
                f"notice: not in the model's vocabulary: {', '.join(words)}{more}.\n        The model splits them "
                "into these tokens and may translate them incorrectly. Its vocabulary has "
                f"{self._tokenizer.entries:,} words and subwords of the training text.",
                file=sys.stderr,
            )


def _shown(word: str, pieces: list[str]) -> str:
    """Return a word with its tokens; a very long one only in part."""
    more = "…" if len(word) > WORD else ""
    return f"{word[:WORD]}{more} ({' '.join(pieces[:WORD])}{'…' if len(pieces) > WORD else ''})"


def notice(tokenizer: Tokenizer, lines: Iterable[str]) -> None:
    """Print the notice for these lines."""
    unknown = UnknownWords(tokenizer)
    for line in lines:
        unknown.check(line)
    unknown.print_notice()
