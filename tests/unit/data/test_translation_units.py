from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from glassformer.data.parallel_text import parallel_files, read_pairs
from glassformer.errors import UserError

TMX = """<?xml version="1.0"?><tmx version="1.4"><header srclang="EN"/><body>
<tu><tuv xml:lang="de"><seg>Ein <ph>%1$s</ph> Hund</seg></tuv>
<tuv xml:lang="en"><seg>A <ph>%1$s</ph> dog</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>한국어 &amp; more</seg></tuv><tuv xml:lang="de"><seg>x</seg></tuv></tu></body></tmx>"""
XLIFF_1 = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body>
<trans-unit id="1"><source>Hello <g id="1">world</g><x id="2"/>!</source>
<target>Hallo <g id="1">Welt</g><x id="2"/>!</target>
</trans-unit><trans-unit id="2"><source>not translated</source></trans-unit></body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0"><file id="f"><unit id="1">
<segment><source>Good evening</source><target>Guten Abend</target></segment></unit></file></xliff>"""
PO = r"""
msgid ""
msgstr "Language: de\n"

#: file.c:3
msgid "Open {name}"
msgstr "Öffne "
"{name}"

#, fuzzy
msgid "Close"
msgstr "Zu?"

msgid "untranslated"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

#~ msgid "old"
#~ msgstr "alt"
"""
CSV = 'id,target,source\n1,"Hallo, Welt","Hello, world"\n2,Ja,Yes\n'
EXAMPLES = {
    "memory.tmx": (TMX, [("A %1$s dog", "Ein %1$s Hund"), ("한국어 & more", "x")]),
    "old.xlf": (XLIFF_1, [('Hello <g id="1">world</g><x id="2"/>!', 'Hallo <g id="1">Welt</g><x id="2"/>!')]),
    "new.xliff": (XLIFF_2, [("Good evening", "Guten Abend")]),
    "de.po": (PO, [("Open {name}", "Öffne {name}"), ("%d file", "%d Datei"), ("%d files", "%d Dateien")]),
    "table.csv": (CSV, [("Hello, world", "Hallo, Welt"), ("Yes", "Ja")]),
}


def pairs(path: Path) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read_pairs(parallel_files([path]))]


@pytest.mark.parametrize("name", EXAMPLES)
def test_units_of_text_formats(name: str, tmp_path: Path) -> None:
    text, expected = EXAMPLES[name]
    (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    assert pairs(tmp_path / name) == pairs(tmp_path / f"{name}.gz") == expected


def test_parquet_and_saved_data_sets(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"translation": {"en": "A dog", "de": "Ein Hund"}}, {"translation": {"en": "Yes", "de": "Ja"}}]
    texts = pyarrow.struct([("en", pyarrow.string()), ("de", pyarrow.string())])  # pyarrow 16 would sort the languages
    table = pyarrow.Table.from_pylist(rows, schema=pyarrow.schema([("translation", texts)]))
    parquet.write_table(table, tmp_path / "x.parquet")
    folder = tmp_path / "saved" / "train"
    folder.mkdir(parents=True)
    (tmp_path / "saved" / "dataset_dict.json").write_text(json.dumps({"splits": ["train"]}))
    (folder / "state.json").write_text("{}")
    with (
        (folder / "data-00000-of-00001.arrow").open("wb") as file,
        pyarrow.ipc.new_stream(file, table.schema) as stream,
    ):
        stream.write_table(table)
    assert pairs(tmp_path / "x.parquet") == pairs(tmp_path / "saved") == [("A dog", "Ein Hund"), ("Yes", "Ja")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tmx", "<tmx><body>", "not XML"),
        ("a.tmx", '<!DOCTYPE t [<!ENTITY a "b">]><tmx/>', "defines entities"),
        ("a.tmx", TMX.replace('xml:lang="de"', 'xml:lang="en"'), "1 languages"),
        ("a.po", 'msgid "a"\nmsgstr __import__("os")\n', "not a line of a PO file"),
        ("a.csv", "a,b,c\n1,2,3\n", "columns are a, b, c"),
        ("a.csv", 'source,target\n1,"2\n', "row is damaged"),
        ("a.csv", "source,target\n1\n", "row is damaged"),
    ],
    ids=["cut off", "entities", "one language", "code", "three columns", "quote", "short row"],
)
def test_damaged_files_are_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        pairs(tmp_path / name)
