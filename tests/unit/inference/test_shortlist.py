"""The lexical shortlist of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.errors import UserError
from glassformer.inference.shortlist import Shortlist
from glassformer.inference.translator import load_translator
from glassformer.phrasebook.corpus import phrasebook
from glassformer.text.special_tokens import EOS

SETTINGS = {
    "tokenizer.vocab": 400,
    "model.layers": 1,
    "model.d_model": 16,
    "model.heads": 2,
    "model.d_ff": 16,
    "model.dropout": 0.0,
    "train.steps": 30,
    "train.lr": 5e-3,
    "train.validate_every": 30,
    "decode.max_length": 8,
}


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


def test_training_writes_a_shortlist_that_restricts_the_output(tmp_path: Path) -> None:
    pairs = phrasebook(size=300).pairs("train", "en", "fr")
    (tmp_path / "train.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    run = gf.train(str(tmp_path / "train.tsv"), out=tmp_path / "run", settings=SETTINGS).path
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
