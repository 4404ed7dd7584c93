"""Texts with a label each, as a .tsv: `label<TAB>text` or `text<TAB>label`. Which of the two, the text itself tells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from glassformer.data.account import Bad
from glassformer.errors import UserError
from glassformer.text.lines import normalize_line, read_lines

LOOKED_AT = 20_000  # lines to find the labels' column by
MOST_LABELS = 100
LONGEST_LABEL = 40  # characters
COLUMNS = ("first", "second")


class Labelled(NamedTuple):
    text: str
    label: str
    place: str  # file:line


class Row(NamedTuple):
    """A line with its two cells; both are empty where it has no tab."""

    cells: tuple[str, str]
    line: str
    place: str


def read_rows(files: Iterable[Path]) -> Iterable[Row]:
    for file in files:
        for number, line in enumerate(read_lines(file), 1):
            first, tab, rest = line.partition("\t")
            cells = (normalize_line(first), normalize_line(rest.partition("\t")[0])) if tab else ("", "")
            yield Row(cells, line, f"{file}:{number}")


def label_column(files: Sequence[Path], *, sure: bool) -> int | None:
    """Which column holds labels: short, and few of them. None where neither does, or both do.

    sure  somebody said that there are labels: then the column with clearly fewer values is enough
    """
    rows = [row.cells for row in islice(read_rows(files), LOOKED_AT) if all(row.cells)]
    few: list[int] = []
    values = [{row[column] for row in rows} for column in (0, 1)]
    most = len(rows) // 2 if sure else len(rows) // 10
    for column in (0, 1):
        short = all(len(value) <= LONGEST_LABEL for value in values[column])
        if short and 0 < len(values[column]) <= min(MOST_LABELS, most):
            few.append(column)
    if len(few) == 2:  # short texts that repeat look like labels too
        fewer = min((0, 1), key=lambda column: len(values[column]))
        return fewer if 2 * len(values[fewer]) <= len(values[1 - fewer]) else None
    return few[0] if few else None


def labels_stand_in(files: Sequence[Path]) -> int:
    """The column of the labels of a file that is said to have some."""
    column = label_column(files, sure=True)
    if column is None:
        raise UserError(
            "Neither column looks like labels: a few short values that come again and again.",
            where=", ".join(map(str, files)),
            hint="give a .tsv of label<TAB>text or text<TAB>label; for pairs of sentences say task=translation",
        )
    return column


def read_labelled(files: Sequence[Path], column: int) -> tuple[list[Labelled], list[Bad]]:
    """The texts with their labels, and the lines that have none."""
    kept, bad = [], []
    for row in read_rows(files):
        label, text = row.cells[column], row.cells[1 - column]
        if label and text:
            kept.append(Labelled(text, label, row.place))
        elif not row.line.strip():
            bad.append(Bad("empty lines", row.place, "(empty)"))
        else:
            reason = "no text" if label else "no label" if text else "no tab between label and text"
            bad.append(Bad(reason, row.place, row.line))
    return kept, bad
