"""Questions about texts, with the answers as they stand in them: JSON in the form of SQuAD.

    {"data": [{"paragraphs": [{"context": "…", "qas": [
        {"question": "…", "answers": [{"text": "1920s", "answer_start": 159}]}]}]}]}

A question without answers is one that its text does not answer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.data.account import Bad
from glassformer.errors import UserError
from glassformer.files import parse_json
from glassformer.text.lines import normalize_line, raw_lines, read_whole
from glassformer.text.tokenizer import EOS, SOS, Tokenizer

FORM = (
    'a .json file of questions is {"data": [{"paragraphs": [{"context": text, "qas": '
    '[{"question": …, "answers": [{"text": …, "answer_start": …}]}]}]}]}'
)
NOWHERE = -1
NOT_THERE = "the answer does not stand in the text"
LONGEST_QUESTION = 64  # tokens
BESIDE_TEXT = LONGEST_QUESTION + 3  # tokens that are read with a window of it: the question, <sos> and <eos> twice


class Answer(NamedTuple):
    text: str
    start: int  # characters of the text before it; NOWHERE if it does not stand there


class Asked(NamedTuple):
    """A question about a text; without answers where the text has none."""

    question: str
    text: str
    answers: tuple[Answer, ...]
    place: str

    @property
    def answer(self) -> Answer | None:
        """The first that stands in the text."""
        return next((answer for answer in self.answers if answer.start != NOWHERE), None)


def holds_questions(path: Path) -> bool:
    """Whether a .json file is one of questions: those begin with a brace, music with a bracket."""
    return path.is_file() and next(raw_lines(path), b"").removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def read_questions(files: Iterable[Path]) -> tuple[list[Asked], list[Bad]]:
    """Every question that has words, about a text that has some, and the others."""
    kept, bad = list[Asked](), list[Bad]()
    for file in files:
        for number, (context, entry) in enumerate(_entries(file), 1):
            where = f"{file}, question {number}"
            asked = _asked(context, entry, where)
            if normalize_line(asked.question) and normalize_line(asked.text):
                kept.append(asked)
            else:
                reason = "no text" if normalize_line(asked.question) else "no question"
                bad.append(Bad(reason, where, asked.question or "(empty)"))
    return kept, bad


def _entries(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every question of a file with its text."""
    try:
        content = parse_json(read_whole(file))
    except ValueError as error:
        raise UserError(f"This is not JSON: {error}.", where=str(file), hint=FORM) from None
    try:
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                for entry in paragraph["qas"]:
                    yield str(paragraph["context"]), dict(entry)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"This file does not hold questions: {error!r}.", where=str(file), hint=FORM) from None


def _asked(text: str, entry: dict[str, Any], where: str) -> Asked:
    try:
        said = (
            [] if entry.get("is_impossible") else [(str(a["text"]), int(a["answer_start"])) for a in entry["answers"]]
        )
        question = str(entry["question"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"This is not a question with answers: {error!r}.", where=where, hint=FORM) from None
    answers = (_placed(text, answer, start) for answer, start in said if answer.strip())
    return Asked(question, text, tuple(dict.fromkeys(answers)), where)


def _placed(text: str, answer: str, start: int) -> Answer:
    """The answer without white space around it, at its place; where it is not there, at the nearest where it is."""
    start += len(answer) - len(answer.lstrip())
    answer = answer.strip()
    if start >= 0 and text.startswith(answer, start):
        return Answer(answer, start)
    places = [i for i in range(len(text) - len(answer) + 1) if text.startswith(answer, i)]
    return Answer(answer, min(places, key=lambda i: abs(i - start), default=NOWHERE))


# As a model reads them -------------------------------------------


class Window(NamedTuple):
    """`<sos> question <eos> text`: a question and as much of the text as is read at once."""

    ids: list[int]
    first: int  # where the text begins in them
    offsets: list[tuple[int, int]]  # of its tokens: characters of the text from, to
    row: int  # which question

    def characters(self, start: int, end: int) -> tuple[int, int]:
        """Where tokens from `start` to `end`, that one included, stand in the text."""
        return self.offsets[start - self.first][0], self.offsets[end - self.first][1]

    def tokens(self, start: int, end: int) -> tuple[int, int] | None:
        """The tokens of characters from `start` to `end`; None where this window does not show all of them."""
        inside = [i for i, (left, right) in enumerate(self.offsets) if left < end and right > start]
        whole = inside and self.offsets[inside[0]][0] <= start and self.offsets[inside[-1]][1] >= end
        return (self.first + inside[0], self.first + inside[-1]) if whole else None


def windows(questions: Sequence[tuple[str, str]], tokenizer: Tokenizer, *, longest: int, overlap: int) -> list[Window]:
    """Questions with their texts as ids; a text of more than `longest` tokens comes in several windows."""
    asked = tokenizer.encode_batch([question for question, _ in questions])
    made = []
    for row, ((_, text), question) in enumerate(zip(questions, asked, strict=True)):
        ids, offsets = tokenizer.encode_with_offsets(text)
        offsets = [_trimmed(text, *offset) for offset in offsets]
        before = [SOS, *question[:LONGEST_QUESTION], EOS]
        begin = 0
        while True:
            some = slice(begin, begin + longest)
            made.append(Window([*before, *ids[some]], len(before), offsets[some], row))
            if begin + longest >= len(ids):
                break
            begin += longest - overlap
    return made


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Without the space before a word, and with the marks that belong to its last letter."""
    while start < end - 1 and text[start].isspace():
        start += 1
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return start, end
