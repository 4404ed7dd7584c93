"""Small data sets of every kind."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data.tsv, data.conllu, data.txt and data.json."""
    folder, dice = tmp_path_factory.mktemp("small"), random.Random(1)
    words = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]
    texts = [" ".join(dice.choices(words, k=dice.randint(1, 9))) for _ in range(150)]
    (folder / "data.tsv").write_text("".join(f"{'yes' if 'ba' in t else 'no'}\t{t}\n" for t in texts), encoding="utf-8")
    sentences = (
        "".join(f"{i}\t{w}\t_\t{'NOUN' if w[1] in 'ae' else 'VERB'}\n" for i, w in enumerate(t.split(), 1))
        for t in texts
    )
    (folder / "data.conllu").write_text("\n".join(sentences), encoding="utf-8")
    (folder / "data.txt").write_text("\n".join(texts), encoding="utf-8")
    pieces = [[[60 + (i + j) % 5, 55, 50, 40 + j % 2] for i in range(20 + j)] for j in range(13)]
    (folder / "data.json").write_text(json.dumps(pieces), encoding="utf-8")
    return folder
