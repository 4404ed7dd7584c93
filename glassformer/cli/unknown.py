"""The notice about words that a model's vocabulary does not hold."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassformer.text.tokenizer import Tokenizer

SHOWN = 10  # words in the notice at most
REMEMBERED = 100_000  # words that are not checked again: a long text repeats most of its words


class UnknownWords:
    """Collects unknown words over the lines of a command, and prints one notice for all of them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._checked: set[str] = set()
        self._found: dict[str, list[str]] = {}

    def check(self, line: str) -> None:
        """Note the unknown words of a line, as far as the notice has room for them."""
        if len(self._found) > SHOWN:
            return
        new = [word for word in line.split() if word not in self._checked]
        if len(self._checked) < REMEMBERED:
            self._checked.update(new)
        self._found |= self._tokenizer.unknown_words(" ".join(new)) if new else {}

    def tell(self) -> None:
        """Print the notice on standard error, if there is something to say."""
        if self._found:
            words = [f"{word} ({' '.join(pieces)})" for word, pieces in list(self._found.items())[:SHOWN]]
            more = " and others" if len(self._found) > SHOWN else ""
            print(
                f"notice: not in the model's vocabulary: {', '.join(words)}{more}.\n"
                f"        The model reads them in these pieces and may translate them wrongly. It knows "
                f"{self._tokenizer.entries:,} words and word pieces, learned from its training text.",
                file=sys.stderr,
            )


def notice(tokenizer: Tokenizer, lines: Iterable[str]) -> None:
    """Print the notice for lines that are all known beforehand."""
    unknown = UnknownWords(tokenizer)
    for line in lines:
        unknown.check(line)
    unknown.tell()
