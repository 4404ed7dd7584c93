"""The benchmark: real contenders in processes of their own, and honest tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from glassformer.errors import UserError
from glassformer.lab import bench
from glassformer.lab.bench import CONTENDERS, Case, Row, measure, prepare, run, table
from glassformer.text.phrasebook import phrasebook


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    book = phrasebook(size=1500)
    for name, language, triples in (("a.en", "en", book.train), ("a.fr", "fr", book.train), ("t.en", "en", book.test)):
        (folder / name).write_text("".join(f"{t.text(language)}\n" for t in triples), encoding="utf-8")
    small = {"model.layers": 1, "model.d_model": 16, "model.heads": 2, "model.d_ff": 16}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "BASE", bench.BASE | small)
        prepare(folder / "a.en", folder / "a.fr", folder / "t.en", folder / "data")
    return folder / "data"


def test_ids_are_the_same_for_all_contenders(data: Path) -> None:
    pairs, meta = (json.loads((data / f"{name}.json").read_text(encoding="utf-8")) for name in ("train", "meta"))
    assert len(pairs) > 1000
    assert all(2 < token < meta["vocab"] for source, target in pairs for token in source + target)


@pytest.mark.parametrize(
    "case",
    [
        Case("train", "train", {"size": "tiny", "batches": 1}),
        Case("decode", "decode", {"beam": 2, "sentences": 8, "batch": 4, "length": 5, "threads": 1}),
        Case("int8", "decode", {"precision": "int8", "sentences": 8, "batch": 1, "length": 5, "threads": 1}),
    ],
    ids=lambda case: case.name,
)
def test_our_own_contender_is_measured_for_real(data: Path, case: Case) -> None:
    result = measure(case, CONTENDERS["glassformer"], sys.executable, data)
    assert 0 < result["seconds"] < result["whole_process_seconds"]
    assert result["tokens_per_second"] > 0
    if case.what == "decode":
        assert result["tokens_per_second"] == pytest.approx(8 * 5 / result["seconds"])


def test_a_contender_that_fails_is_named(data: Path) -> None:
    with pytest.raises(UserError, match="no result"):
        measure(Case("train", "train", {"size": "no such size"}), CONTENDERS["glassformer"], sys.executable, data)


def test_an_unknown_peer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no peer 'fairsec'(.|\n)*hf"):
        run("train", ["fairsec"], data=tmp_path, rounds=1, tell=lambda text: None)


def test_the_table_has_medians_and_ratios() -> None:
    def row(name: str, *speeds: float) -> Row:
        results = [{"tokens_per_second": s, "peak_megabytes": 10.0, "seconds": 1.0} for s in speeds]
        return Row("training", name, results=results)

    lines = table([row("hf", 50, 40, 60), row("glassformer", 99, 100, 400)])
    assert lines[2] == "| training | glassformer | 100 | 150% |  | 10 |"
    assert lines[3] == "| training | hf | 50 | 20% | 2.00× | 10 |"
