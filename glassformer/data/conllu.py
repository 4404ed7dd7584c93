"""CoNLL-U files: sentences with the form (column 2) and the part of speech (column 4) of each word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from glassformer.errors import UserError
from glassformer.text.lines import excerpt, normalize_line, read_lines

NO_TAG = "_"


class TaggedSentence(NamedTuple):
    """Words with their part-of-speech tags."""

    words: list[str]
    tags: list[str]
    place: str  # file:line of the first word

    @property
    def text(self) -> str:
        return " ".join(self.words)


def read_conllu(files: Iterable[Path]) -> Iterator[TaggedSentence]:
    """Yield all sentences in order. Multiword tokens (1-2) and empty nodes (1.1) are skipped."""
    for file in files:
        words: list[str] = []
        tags: list[str] = []
        begins = 0
        for number, line in enumerate(read_lines(file), 1):
            if not line.strip():
                if words:
                    yield TaggedSentence(words, tags, f"{file}:{begins}")
                words, tags = [], []
            elif not line.startswith("#") and (found := _word(line, f"{file}:{number}")):
                begins = begins if words else number
                words.append(found[0])
                tags.append(found[1])
        if words:
            yield TaggedSentence(words, tags, f"{file}:{begins}")


def _word(line: str, where: str) -> tuple[str, str] | None:
    columns = line.split("\t")
    number = columns[0]
    if number.replace("-", "", 1).replace(".", "", 1).isdigit() and len(columns) >= 4:
        if not number.isdigit():
            return None
        word, tag = normalize_line(columns[1]), columns[3].strip()
        if word and tag:
            return word, tag
    hint = "a word line is number<TAB>word<TAB>lemma<TAB>tag, a comment starts with #, an empty line ends a sentence"
    raise UserError(f"This line is not CoNLL-U: {excerpt(line)}", where=where, hint=hint)
