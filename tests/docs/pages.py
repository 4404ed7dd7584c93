"""Code blocks and headings of Markdown pages, and small files for their commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

from glassformer.phrasebook.corpus import phrasebook

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return [code for of, code in BLOCK.findall(read(name)) if of == language]


def commands(name: str) -> list[str]:
    """Return the lines of all bash blocks, without comments."""
    lines = [line for block in blocks(name, "bash") for line in block.splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.strip()]


def headings(name: str) -> list[int]:
    """The levels of all headings, in order."""
    return [len(marks) for marks in re.findall(r"^(#+) ", BLOCK.sub("", read(name)), flags=re.MULTILINE)]


def write_parallel_text(folder: Path) -> None:
    """Write a small parallel corpus under the names that the pages use: train.en, train.de …"""
    book = phrasebook(size=300)
    for split, triples in (("train", book.train), ("valid", book.valid), ("test", book.test)):
        for side, language in (("en", "en"), ("de", "fr")):
            lines = "".join(f"{triple.text(language)}\n" for triple in triples)
            (folder / f"{split}.{side}").write_text(lines, encoding="utf-8")


def write_other_data(folder: Path) -> None:
    """reviews.tsv, words.conllu, text.txt, pieces.json and qa.json, of a few lines each."""
    words = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]
    rows = [[words[i % 25], words[(3 * i + 1) % 25], words[i * i % 25]] for i in range(60)]
    tagged = ("".join(f"{i}\t{word}\t_\tV{word[1]}\n" for i, word in enumerate(row, 1)) for row in rows)
    answer = {"text": "1883", "answer_start": 10}
    asked = [
        {"context": f"It was in 1883, {i}.", "qas": [{"question": "When?", "answers": [answer]}]} for i in range(40)
    ]
    texts = {
        "reviews.tsv": "".join(f"{i % 2}\t{' '.join(row)} {i}\n" for i, row in enumerate(rows)),
        "words.conllu": "\n".join(tagged),
        "text.txt": "".join(f"{' '.join(row)}\n" for row in rows),
        "pieces.json": json.dumps([[[60 + i % 3, 55, 52, 48 + j]] * 9 for i in range(4) for j in range(4)]),
        "qa.json": json.dumps({"data": [{"paragraphs": asked}]}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
