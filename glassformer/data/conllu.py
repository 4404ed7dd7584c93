"""Sentences whose words have tags: CoNLL-U, of which the word (column 2) and its part of speech (column 4) are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from glassformer.errors import UserError
from glassformer.text.lines import normalize_line, read_lines

NO_TAG = "_"


class Tagged(NamedTuple):
    words: list[str]
    tags: list[str]
    place: str  # file:line of its first word

    @property
    def text(self) -> str:
        return " ".join(self.words)


def read_conllu(files: Iterable[Path]) -> Iterator[Tagged]:
    """Every sentence in order. Lines that stand for several words (1-2) or for none (1.1) are passed over."""
    for file in files:
        words: list[str] = []
        tags: list[str] = []
        begins = 0
        for number, line in enumerate(read_lines(file), 1):
            if not line.strip():
                if words:
                    yield Tagged(words, tags, f"{file}:{begins}")
                words, tags = [], []
            elif not line.startswith("#") and (found := _word(line, f"{file}:{number}")):
                begins = begins if words else number
                words.append(found[0])
                tags.append(found[1])
        if words:
            yield Tagged(words, tags, f"{file}:{begins}")


def _word(line: str, where: str) -> tuple[str, str] | None:
    columns = line.split("\t")
    number = columns[0]
    if number.replace("-", "", 1).replace(".", "", 1).isdigit() and len(columns) >= 4:
        if not number.isdigit():
            return None
        word, tag = normalize_line(columns[1]), columns[3].strip()
        if word and tag:
            return word, tag
    short = "".join(char if char.isprintable() else " " for char in line[:80])
    raise UserError(
        f"This is not a word of CoNLL-U: {short}",
        where=where,
        hint="a line has a number, the word, its lemma and its tag with tabs in between, a comment begins with #, "
        "and an empty line ends a sentence",
    )
