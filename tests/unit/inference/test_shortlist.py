"""The lexical shortlist of a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from glassformer.errors import UserError
from glassformer.inference.shortlist import Shortlist
from glassformer.inference.translator import load_translator
from glassformer.phrasebook.corpus import phrasebook
from glassformer.text.special_tokens import EOS


def test_tokens_of_a_batch(tmp_path: Path) -> None:
    shortlist = Shortlist({5: [31, 37], 7: [41]}, [23])
    assert shortlist.tokens([[5, EOS], [11, EOS]]) == [EOS, 5, 11, 23, 31, 37]
    shortlist.save(tmp_path / "shortlist.json")
    assert Shortlist.load(tmp_path / "shortlist.json", 42).tokens([[7]]) == [EOS, 7, 23, 41]
    with pytest.raises(UserError, match="damaged"):
        Shortlist.load(tmp_path / "shortlist.json", 41)


@pytest.mark.parametrize(
    "raw", [[], {"always": [1]}, {"always": ["x"], "candidates": {}}, {"always": [], "candidates": []}]
)
def test_damaged_shortlists_are_refused(tmp_path: Path, raw: object) -> None:
    (tmp_path / "shortlist.json").write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(UserError, match="damaged"):
        Shortlist.load(tmp_path / "shortlist.json", 50)


def test_training_writes_a_shortlist_that_restricts_the_output(tmp_path: Path, phrasebook_run: Path) -> None:
    pairs = phrasebook(size=300).pairs("train", "en", "fr")
    run = shutil.copytree(phrasebook_run, tmp_path / "run")
    translator = load_translator(run, shortlist=True)
    shortlist = Shortlist.load(run / "shortlist.json", len(translator.tokenizer))
    line = pairs[0][0]
    (source,) = translator.encode(line)
    allowed = set(shortlist.tokens([source]))
    assert len(allowed) < len(translator.tokenizer) / 2
    target = set(translator.tokenizer.encode(pairs[0][1]))
    assert target <= allowed  # the reference can be written
    assert set(translator.greedy_tokens(line)) <= allowed
    (run / "shortlist.json").unlink()
    with pytest.raises(UserError, match="no shortlist"):
        load_translator(run, shortlist=True)
