"""Labelled texts as .tsv: `label<TAB>text` or `text<TAB>label`. The order of the columns is detected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from glassformer.data.report import DroppedExample
from glassformer.errors import UserError
from glassformer.text.lines import normalize_line, read_lines

MAX_LINES_READ = 20_000  # to detect the label column
MAX_LABELS = 100
MAX_LABEL_CHARACTERS = 40  # characters
COLUMN_NAMES = ("first", "second")


class LabelledText(NamedTuple):
    """A text and its label."""

    text: str
    label: str
    place: str  # file:line


class TsvRow(NamedTuple):
    """A line and its first two cells, which are empty if the line has no tab."""

    cells: tuple[str, str]
    line: str
    place: str


def read_rows(files: Iterable[Path]) -> Iterable[TsvRow]:
    """Yield all lines with their first two cells, normalized."""
    for file in files:
        for number, line in enumerate(read_lines(file), 1):
            first, tab, rest = line.partition("\t")
            cells = (normalize_line(first), normalize_line(rest.partition("\t")[0])) if tab else ("", "")
            yield TsvRow(cells, line, f"{file}:{number}")


def guess_label_column(files: Sequence[Path], *, sure: bool) -> int | None:
    """Return the column (0 or 1) with few short values; None if neither or both columns look like labels.

    With `sure`, the user has said that the file has labels: more distinct values are accepted.
    """
    rows = [row.cells for row in islice(read_rows(files), MAX_LINES_READ) if all(row.cells)]
    few: list[int] = []
    values = [{row[column] for row in rows} for column in (0, 1)]
    most = len(rows) // 2 if sure else len(rows) // 10
    for column in (0, 1):
        short = all(len(value) <= MAX_LABEL_CHARACTERS for value in values[column])
        if short and 0 < len(values[column]) <= min(MAX_LABELS, most):
            few.append(column)
    if len(few) == 2:  # short texts that recur also look like labels
        fewer = min((0, 1), key=lambda column: len(values[column]))
        return fewer if 2 * len(values[fewer]) <= len(values[1 - fewer]) else None
    return few[0] if few else None


def find_label_column(files: Sequence[Path]) -> int:
    """Return the label column of files for classification. Raises UserError if there is none."""
    column = guess_label_column(files, sure=True)
    if column is None:
        raise UserError(
            "Neither column looks like labels, that is, a few short values that recur.",
            where=", ".join(map(str, files)),
            hint="give a .tsv of label<TAB>text or text<TAB>label; for sentence pairs use task=translation",
        )
    return column


def read_labelled(files: Sequence[Path], column: int) -> tuple[list[LabelledText], list[DroppedExample]]:
    """Return the labelled texts, and the lines without text or label."""
    kept, dropped = [], []
    for row in read_rows(files):
        label, text = row.cells[column], row.cells[1 - column]
        if label and text:
            kept.append(LabelledText(text, label, row.place))
        elif not row.line.strip():
            dropped.append(DroppedExample("empty lines", row.place, "(empty)"))
        else:
            reason = "no text" if label else "no label" if text else "no tab between label and text"
            dropped.append(DroppedExample(reason, row.place, row.line))
    return kept, dropped
