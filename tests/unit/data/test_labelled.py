"""Labels and texts in a .tsv: detection of the label column, and dropped rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.data.labelled import find_label_column, guess_label_column, read_labelled
from glassformer.errors import UserError


def written(folder: Path, rows: list[str]) -> list[Path]:
    path = folder / "data.tsv"
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return [path]


LABEL_FIRST = [f"{'good' if i % 3 else 'bad'}\tfilm number {i}" for i in range(60)]
LABEL_SECOND = [f"film number {i}\t{i % 2}" for i in range(60)]
PAIRS = [f"word {i}\tmot {i}" for i in range(60)]


@pytest.mark.parametrize(("rows", "column"), [(LABEL_FIRST, 0), (LABEL_SECOND, 1), (PAIRS, None)])
def test_the_column_with_few_values_holds_the_labels(rows: list[str], column: int | None, tmp_path: Path) -> None:
    assert guess_label_column(written(tmp_path, rows), sure=False) == column


def test_labels_of_a_short_file_are_found_only_if_expected(tmp_path: Path) -> None:
    files = written(tmp_path, ["yes\tone", "no\ttwo", "no\tthree", "yes\tfour"])
    assert guess_label_column(files, sure=False) is None
    assert guess_label_column(files, sure=True) == 0


def test_two_columns_of_few_values_are_not_labels_and_texts(tmp_path: Path) -> None:
    files = written(tmp_path, [f"{i % 3}\t{i % 4}" for i in range(100)])
    assert guess_label_column(files, sure=False) is None


def test_long_values_are_no_labels(tmp_path: Path) -> None:
    files = written(tmp_path, [f"{'a very long sentence ' * 3}{i % 2}\ttext {i}" for i in range(60)])
    assert guess_label_column(files, sure=True) is None


def test_files_without_a_label_column_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Neither column looks like labels(.|\n)*label<TAB>text or text<TAB>label"):
        find_label_column(written(tmp_path, PAIRS))


def test_rows_without_label_or_text_are_dropped_with_their_lines(tmp_path: Path) -> None:
    files = written(tmp_path, ["1\tgood  film", "", "no tab here", "\ttext alone", "0\t  ", "0\tbad\tmore"])
    kept, bad = read_labelled(files, 0)
    assert [(one.label, one.text, one.place) for one in kept] == [
        ("1", "good film", f"{files[0]}:1"),
        ("0", "bad", f"{files[0]}:6"),
    ]
    assert [(one.reason, one.place.rpartition(":")[2]) for one in bad] == [
        ("empty lines", "2"),
        ("no tab between label and text", "3"),
        ("no label", "4"),
        ("no text", "5"),
    ]
