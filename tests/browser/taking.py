"""What a view lets people take away, taken away."""

from __future__ import annotations

import csv
import io
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree


def downloaded(page: Any, kind: str, within: str) -> bytes:
    with page.expect_download() as waiting:
        page.locator(f"{within} .exports button", has_text=kind).first.click()
    return Path(waiting.value.path()).read_bytes()


def can_be_taken_away(page: Any, within: str, *, rows: int = 5) -> None:
    """A drawing that parses and needs no style sheet, a picture, and a table of more than so many rows."""
    root = ElementTree.fromstring(downloaded(page, "SVG", within))
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and len(list(root.iter())) > 10
    assert "var(--" not in ElementTree.tostring(root, encoding="unicode")
    png = downloaded(page, "PNG", within)
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and min(struct.unpack(">II", png[16:24])) > 50
    table = list(csv.reader(io.StringIO(downloaded(page, "CSV", within).decode())))
    assert len(table) > rows and len({len(row) for row in table}) == 1
