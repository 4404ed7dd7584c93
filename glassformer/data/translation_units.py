"""Sentence pairs from the files of translators and data sets: TMX, XLIFF, PO, CSV, Parquet and Arrow.

Inline codes are kept as text: the content of TMX placeholders, and XLIFF elements as tags such as `<x id="1"/>`. Units
without a translation are skipped.
"""

from __future__ import annotations

import ast
import csv
import io
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.sax.saxutils import quoteattr

from glassformer.errors import UserError, import_optional
from glassformer.text.lines import read_lines, strip_gz

Pair = tuple[str, str]
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def read_units(path: Path) -> Iterator[Pair]:
    """Yield the sources and targets of a file, in order. Raises UserError for a damaged file."""
    yield from READERS[Path(strip_gz(path)).suffix.lower()](path)


# TMX ---------------------------------------------------------


def _read_tmx(path: Path) -> Iterator[Pair]:
    """Yield the units of a translation memory; its header names the source language."""
    source = ""
    for element in _elements(path):
        if _name(element) == "header":
            source = element.get("srclang", "").lower()
        elif _name(element) == "tu":
            segments = {_language(variant): _segment(variant) for variant in element if _name(variant) == "tuv"}
            element.clear()
            if len(segments) != 2:
                raise UserError(
                    f"A unit has {len(segments)} languages: {', '.join(segments)}.",
                    where=str(path),
                    hint="export a translation memory with two languages",
                )
            first = next((language for language in segments if language == source), next(iter(segments)))
            (second,) = segments.keys() - {first}
            yield segments[first], segments[second]


def _language(variant: Element) -> str:
    return (variant.get(LANGUAGE) or variant.get("lang") or "").lower()


def _segment(variant: Element) -> str:
    return next(("".join(child.itertext()) for child in variant if _name(child) == "seg"), "")


# XLIFF -------------------------------------------------------


def _read_xliff(path: Path) -> Iterator[Pair]:
    """Yield the units of XLIFF 1.2 (`trans-unit`) and 2 (`segment`) that have a target."""
    for element in _elements(path):
        if _name(element) in ("trans-unit", "segment"):
            texts = {_name(child): _with_tags(child) for child in element if _name(child) in ("source", "target")}
            element.clear()
            if texts.get("target", "").strip():
                yield texts.get("source", ""), texts["target"]


def _with_tags(element: Element) -> str:
    """Return the content of an element, with inline elements as tags without namespaces."""
    text = element.text or ""
    for child in element:
        attributes = "".join(f" {_local(name)}={quoteattr(value)}" for name, value in child.items())
        inner, tag = _with_tags(child), _name(child)
        text += f"<{tag}{attributes}>{inner}</{tag}>" if inner else f"<{tag}{attributes}/>"
        text += child.tail or ""
    return text


def _elements(path: Path) -> Iterator[Element]:
    """Yield the elements of an XML file when they end. Entities that the file defines are refused."""
    text = "\n".join(read_lines(path))
    if "<!ENTITY" in text:
        raise UserError("The file defines entities, which can fill the memory.", where=str(path), hint="remove them")
    try:
        for _, element in ElementTree.iterparse(io.BytesIO(text.encode())):
            yield element
    except ElementTree.ParseError as error:
        raise UserError(f"This is not XML: {error}.", where=str(path), hint="export the file again") from None


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _name(element: Element) -> str:
    return _local(element.tag)


# PO ----------------------------------------------------------


def _read_po(path: Path) -> Iterator[Pair]:
    """Yield the translated entries of a gettext catalogue; fuzzy and obsolete ones and the header are skipped."""
    lines = (line.strip() for line in read_lines(path))
    for is_blank, group in itertools.groupby(enumerate(lines, 1), key=lambda line: not line[1]):
        if is_blank:
            continue
        fields, fuzzy = _po_fields(group, path)
        source, plural = fields.get("msgid", ""), fields.get("msgid_plural", "")
        if source and not fuzzy:
            yield from (pair for pair in _po_pairs(fields, source, plural) if pair[1])


def _po_pairs(fields: dict[str, str], source: str, plural: str) -> Iterator[Pair]:
    yield source, fields.get("msgstr", "") or fields.get("msgstr[0]", "")
    forms = [text for name, text in fields.items() if name.startswith("msgstr[") and name != "msgstr[0]"]
    if plural and forms:
        yield plural, forms[-1]


def _po_fields(lines: Iterable[tuple[int, str]], path: Path) -> tuple[dict[str, str], bool]:
    """Return the strings of an entry by keyword, and whether it is fuzzy."""
    fields: dict[str, str] = {}
    keyword, fuzzy = "", False
    for number, line in lines:
        if line.startswith("#"):
            fuzzy = fuzzy or (line.startswith("#,") and "fuzzy" in line)
            continue
        if not line.startswith('"'):
            keyword, _, line = line.partition(" ")
        try:
            text = ast.literal_eval(line.strip())
        except (ValueError, SyntaxError):
            text = None
        if not isinstance(text, str) or not keyword:
            raise UserError(
                "This is not a line of a PO file.", where=f"{path}:{number}", hint="check it with msgfmt -c"
            )
        fields[keyword] = fields.get(keyword, "") + text
    return fields, fuzzy


# Tables ------------------------------------------------------


def _read_csv(path: Path) -> Iterator[Pair]:
    """Yield the rows of a CSV file with a header: the columns source and target, or its first two."""
    rows = csv.reader(read_lines(path), strict=True)
    try:
        header = next(rows, [])
        columns = _columns(header, path)
        for row in rows:
            if row:
                yield row[columns[0]], row[columns[1]]
    except (csv.Error, IndexError) as error:
        hint = "give every row the columns of the header, with quotes around commas"
        raise UserError(f"This row is damaged: {error}.", where=f"{path}:{rows.line_num}", hint=hint) from None


def _columns(names: list[str], path: Path) -> tuple[int, int]:
    if "source" in names and "target" in names:
        return names.index("source"), names.index("target")
    if len(names) == 2:
        return 0, 1
    hint = "name two columns source and target in the first row, or keep only two"
    raise UserError(f"The columns are {', '.join(names) or 'missing'}.", where=str(path), hint=hint)


def _read_parquet(path: Path) -> Iterator[Pair]:
    for batch in _pyarrow("parquet").ParquetFile(path).iter_batches():
        yield from _table_pairs(batch.to_pylist(), path)


def _read_arrow(path: Path) -> Iterator[Pair]:
    """Yield the rows of a file of a data set that Hugging Face `datasets` saved to disk."""
    with path.open("rb") as file:
        for batch in _pyarrow("ipc").open_stream(file):
            yield from _table_pairs(batch.to_pylist(), path)


def _table_pairs(rows: list[dict[str, Any]], path: Path) -> Iterator[Pair]:
    """Yield pairs of rows with columns source and target, two columns, or one column of two texts."""
    for row in rows:
        texts = next((cell for cell in row.values() if isinstance(cell, dict)), row)
        names = list(texts)
        first, second = _columns(names, path)
        yield str(texts[names[first]] or ""), str(texts[names[second]] or "")


def _pyarrow(module: str) -> Any:
    return import_optional(f"pyarrow.{module}", extra="parquet", use="Reading this file")


READERS: dict[str, Callable[[Path], Iterator[Pair]]] = {
    ".tmx": _read_tmx,
    ".xlf": _read_xliff,
    ".xliff": _read_xliff,
    ".po": _read_po,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".arrow": _read_arrow,
}
