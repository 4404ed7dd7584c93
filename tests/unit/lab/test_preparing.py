"""The benchmark of preparation: its measurements, and the page written from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.lab.bench.preparation import STEPS, run, save, table
from glassformer.lab.bench.runner import OURS, Row

pytestmark = pytest.mark.slow


def rows() -> list[Row]:
    ours = {"reading": 10, "vocabulary": 20, "encoding": 30, "peak_megabytes": 700}
    alone = {"vocabulary": 20, "encoding": 100, "without_normalizer": 80, "peak_megabytes": 300}
    start = {"seconds": 2.5, "tokens_per_second": 5e6, "peak_megabytes": 600}
    return [
        Row("generate", OURS, "g 1", [{"pairs": 1000, "megabytes": 7}]),
        Row("prepare", OURS, "g 1", [ours | {f"{part}_cores": ours[part] * 2 for part in list(ours)[:3]}]),
        Row("start", OURS, "g 1", [start]),
        Row(
            "tokenizers", "tokenizers", "t 1", [alone | {f"{part}_cores": alone[part] * 3 for part in list(alone)[:3]}]
        ),
    ]


def test_the_table_compares_like_with_like() -> None:
    text = "\n".join(table(rows(), training=10_000))
    assert "| g 1 | 60 | 120 | 10 | 20 | 30 | 700 |" in text
    assert "| t 1 | 120 | 360 |  | 20 | 100 | 300 |" in text
    assert "0.50 times the seconds and 0.33 times the core-seconds" in text
    assert "(0.60 and 0.40 times without its normalizer)" in text
    assert "5,000,000 target tokens per second, 500 times the training speed" in text


def test_the_page_names_the_command_and_the_machine(tmp_path: Path) -> None:
    page = save(rows(), "glassformer bench prepare", "a machine", tmp_path).read_text(encoding="utf-8")
    assert "Written by `glassformer bench prepare`, a machine." in page and "1,000 generated pairs" in page
    assert len(json.loads((tmp_path / "preparation.json").read_text(encoding="utf-8"))["rows"]) == 4


@pytest.mark.learns
def test_the_benchmark_runs_on_a_small_corpus() -> None:
    found = run(2_000, log=lambda text: None)
    assert [row.case for row in found] == list(STEPS)
    assert all(row.results[0]["peak_megabytes"] > 20 for row in found)
    assert found[2].results[0]["tokens_per_second"] > 0
    assert table(found)
