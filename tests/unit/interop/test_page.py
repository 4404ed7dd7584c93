"""`glassformer export --to page`: the script of the page, run by Node.js, gives the tokens of the native engine."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.engine.library import Unavailable, library
from glassformer.errors import UserError
from glassformer.inference.run import build_model, save_weights, weights_of
from glassformer.inference.run_folder import RunFolder, save_settings
from glassformer.interop import page_check, page_export
from glassformer.interop.formats import ExportRequest, export
from glassformer.interop.page_payload import encode_text
from glassformer.phrasebook.corpus import phrasebook
from glassformer.settings import resolve
from glassformer.text.tokenizer import Tokenizer
from tests.families import perturb
from tests.untrained_runs import FROZEN, TRAIN

SMALL = {"layers": 2, "d_model": 24, "heads": 2, "d_ff": 48, "max_positions": 40, "dropout": 0}
LINES = ["Ein Hund läuft. 3 Katzen!", "학교에 갑니다, 그리고 옵니다", "ROMEO: what light?\nJULIET: ay me"]
SENTENCES = [triple.english for triple in phrasebook(size=300).train[:200]]
LABELS = ["negative", "neutral", "positive"]


@pytest.fixture(autouse=True)
def _needs_engine_and_node() -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed: apt-get install nodejs")
    try:
        library()
    except Unavailable as reason:
        pytest.skip(str(reason))


def make_run(path: Path, raw: dict[str, Any], tokenizer: Tokenizer, labels: list[str] | None = None) -> Path:
    """Write a run with random weights."""
    path.mkdir()
    folder, settings = RunFolder(path), resolve(raw | {"data": {"train": ["private/a.txt"]}, "train": TRAIN})
    save_settings(folder, settings)
    folder.tokenizer.write_text(tokenizer.to_json(), encoding="utf-8")
    torch.manual_seed(3)
    model = perturb(build_model(settings, len(tokenizer), len(labels or [])))
    save_weights(folder.model, {name: 2 * weight for name, weight in weights_of(model).items()})
    if labels:
        folder.labels.write_text(json.dumps(labels), encoding="utf-8")
    return path


def gpt(path: Path, positions: str = "learned") -> Path:
    tokenizer = Tokenizer.train(LINES, vocab=340, kind="characters")
    raw = {"task": "language_model", "tokenizer": {"kind": "characters", "vocab": 340}}
    return make_run(path, raw | {"model": SMALL | {"family": "gpt", "positions": positions}}, tokenizer)


def rotary_gpt(path: Path) -> Path:
    return gpt(path, "rotary")


def bert(path: Path, pooling: str = "highest") -> Path:
    tokenizer = Tokenizer.train(LINES, vocab=340, lowercase=True)
    raw = {"task": "classification", "tokenizer": {"vocab": 340, "lowercase": True}}
    return make_run(path, raw | {"model": SMALL | {"family": "bert", "pooling": pooling}}, tokenizer, LABELS)


def bert_with_pooler(path: Path) -> Path:
    return bert(path, "first")


@pytest.mark.parametrize("make", [gpt, rotary_gpt, bert, bert_with_pooler])
def test_language_models_and_classifiers(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    said = export("page", ExportRequest(make(tmp_path / "run"), tmp_path / "page.html"))
    assert "tokenizer 37 of 37, greedy 20 of 20" in said
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "private" not in html.split('id="payload"')[0]


def test_a_translation_page_writes_the_tokens_of_the_native_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_check, "sample_texts", lambda loaded: SENTENCES)
    said = export("page", ExportRequest(FROZEN, tmp_path / "page.html"))
    counts = re.findall(r"(?:greedy|beam 4) (\d+) of 200", said)  # the kernels of two CPUs round sums differently
    assert len(counts) == 2 and min(map(int, counts)) >= 190
    assert (tmp_path / "page.html").stat().st_size < 500_000


def test_a_page_that_disagrees_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_check, "sample_texts", lambda loaded: ["I am a student"])
    monkeypatch.setattr(page_check, "native_answers", lambda loaded, texts, beam: [[5]])
    with pytest.raises(UserError, match="disagrees"):
        export("page", ExportRequest(FROZEN, tmp_path / "page.html"))
    assert not list(tmp_path.iterdir())


def test_runs_that_a_page_cannot_show_are_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(LINES, vocab=340)
    gru = {"family": "recurrent", "d_model": 24, "layers": 1, "dropout": 0}
    run = make_run(tmp_path / "run", {"model": gru, "tokenizer": {"vocab": 340}}, tokenizer)
    with pytest.raises(UserError, match=r"model\.family is recurrent"):
        export("page", ExportRequest(run, tmp_path / "page.html"))
    (tmp_path / "page.html").touch()
    with pytest.raises(UserError, match="exists already"):
        export("page", ExportRequest(FROZEN, tmp_path / "page.html"))


def test_the_payload_has_no_character_that_ends_a_script() -> None:
    content = np.random.default_rng(1).integers(0, 256, 70_001, dtype=np.uint8).tobytes() + bytes(50)
    text = encode_text(content)
    assert not set(text) & set("\0\r<")
    assert len(text.encode()) <= len(content) * 8 / 7 + 2
    values = [value for c in map(ord, text) for value in ((b"\0\r<"[(c - 128) >> 7], c & 127) if c > 127 else (c,))]
    bits = np.unpackbits(np.array(values, np.uint8)[:, None], axis=1)[:, 1:].ravel()
    assert np.packbits(bits[: 8 * len(content)]).tobytes() == content


def test_the_scripts_are_joined_each_once() -> None:
    script = page_export.bundle("main.js")
    assert script.count("class Tokenizer") == script.count("class PageModel") == 1
    assert script.index("class Tokenizer") < script.index("class PageModel")
