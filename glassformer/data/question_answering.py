"""Extractive question answering: questions about texts with answer spans, as JSON in the format of SQuAD.

    {"data": [{"paragraphs": [{"context": "…", "qas": [
        {"question": "…", "answers": [{"text": "1920s", "answer_start": 159}]}]}]}]}

A question without answers is not answered by its text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.data.report import DroppedExample
from glassformer.errors import UserError
from glassformer.text.lines import normalize_line, read_json, read_raw_lines
from glassformer.text.tokenizer import EOS, SOS, Tokenizer

SQUAD_FORMAT = (
    'a .json file of questions must be {"data": [{"paragraphs": [{"context": text, "qas": '
    '[{"question": …, "answers": [{"text": …, "answer_start": …}]}]}]}]}'
)
NOT_FOUND = -1
ANSWER_NOT_FOUND = "the answer does not occur in the text"
MAX_QUESTION_TOKENS = 64  # tokens
RESERVED_TOKENS = MAX_QUESTION_TOKENS + 3  # of each window: the question, <sos> and two <eos>


class AnswerSpan(NamedTuple):
    """A reference answer."""

    text: str
    start: int  # index of its first character in the text, or NOT_FOUND


class QuestionExample(NamedTuple):
    """A question about a text, with no answers if the text does not answer it."""

    question: str
    text: str
    answers: tuple[AnswerSpan, ...]
    place: str

    @property
    def answer(self) -> AnswerSpan | None:
        """The first answer that occurs in the text."""
        return next((answer for answer in self.answers if answer.start != NOT_FOUND), None)


def is_question_file(path: Path) -> bool:
    """Return whether a .json file contains questions: it starts with a brace, a file of music with a bracket."""
    return path.is_file() and next(read_raw_lines(path), b"").removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def read_questions(files: Iterable[Path]) -> tuple[list[QuestionExample], list[DroppedExample]]:
    """Return all questions, and those dropped because the question or the text is empty."""
    kept, dropped = list[QuestionExample](), list[DroppedExample]()
    for file in files:
        for number, (context, entry) in enumerate(_entries(file), 1):
            where = f"{file}, question {number}"
            example = _parse_question(context, entry, where)
            if normalize_line(example.question) and normalize_line(example.text):
                kept.append(example)
            else:
                reason = "no text" if normalize_line(example.question) else "no question"
                dropped.append(DroppedExample(reason, where, example.question or "(empty)"))
    return kept, dropped


def _entries(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all questions of a file, each with its text."""
    content = read_json(file, hint=SQUAD_FORMAT)
    try:
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                for entry in paragraph["qas"]:
                    yield str(paragraph["context"]), dict(entry)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"The file does not have the format of SQuAD: {error!r}.", where=str(file), hint=SQUAD_FORMAT
        ) from None


def _parse_question(text: str, entry: dict[str, Any], where: str) -> QuestionExample:
    try:
        raw = [] if entry.get("is_impossible") else entry["answers"]
        spans = [(str(answer["text"]), int(answer["answer_start"])) for answer in raw]
        question = str(entry["question"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"The entry is not a question with answers: {error!r}.", where=where, hint=SQUAD_FORMAT
        ) from None
    answers = (_locate(text, answer, start) for answer, start in spans if answer.strip())
    return QuestionExample(question, text, tuple(dict.fromkeys(answers)), where)


def _locate(text: str, answer: str, start: int) -> AnswerSpan:
    """Strip the answer and locate it at `start`, or at its nearest occurrence if it is not there."""
    start += len(answer) - len(answer.lstrip())
    answer = answer.strip()
    if start >= 0 and text.startswith(answer, start):
        return AnswerSpan(answer, start)
    places = [i for i in range(len(text) - len(answer) + 1) if text.startswith(answer, i)]
    return AnswerSpan(answer, min(places, key=lambda i: abs(i - start), default=NOT_FOUND))


# Model input -----------------------------------------------------


class ContextWindow(NamedTuple):
    """One model input, `<sos> question <eos> text`, with as much of the text as fits."""

    ids: list[int]
    first: int  # index of the first token of the text
    offsets: list[tuple[int, int]]  # (start, end) characters of each token of the text
    row: int  # index of the question

    def characters(self, start: int, end: int) -> tuple[int, int]:
        """Return the (start, end) characters of the tokens from `start` to `end` inclusive."""
        return self.offsets[start - self.first][0], self.offsets[end - self.first][1]

    def tokens(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and last token of the characters [start, end); None if the window lacks part of them."""
        inside = [i for i, (left, right) in enumerate(self.offsets) if left < end and right > start]
        whole = inside and self.offsets[inside[0]][0] <= start and self.offsets[inside[-1]][1] >= end
        return (self.first + inside[0], self.first + inside[-1]) if whole else None


def make_windows(
    questions: Sequence[tuple[str, str]], tokenizer: Tokenizer, *, longest: int, overlap: int
) -> list[ContextWindow]:
    """Encode (question, text) pairs. A text of more than `longest` tokens is split into overlapping windows."""
    encoded = tokenizer.encode_batch([question for question, _ in questions])
    made = []
    for row, ((_, text), question) in enumerate(zip(questions, encoded, strict=True)):
        ids, offsets = tokenizer.encode_with_offsets(text)
        offsets = [_trimmed(text, *offset) for offset in offsets]
        before = [SOS, *question[:MAX_QUESTION_TOKENS], EOS]
        begin = 0
        while True:
            some = slice(begin, begin + longest)
            made.append(ContextWindow([*before, *ids[some]], len(before), offsets[some], row))
            if begin + longest >= len(ids):
                break
            begin += longest - overlap
    return made


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Exclude the space before a word, and include the combining marks of its last letter."""
    while start < end - 1 and text[start].isspace():
        start += 1
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return start, end
