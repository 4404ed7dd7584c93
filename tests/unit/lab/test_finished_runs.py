"""The learning curve of a run, from its log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.lab.bench.finished_runs import FinishedRun, mean_table, read_runs

SETTINGS = Path(__file__).parents[2] / "compat" / "runs" / "format-1" / "run.toml"


def log_line(minutes: float, event: str, **fields: Any) -> str:
    return json.dumps({"event": event, "time": 1000 + 60 * minutes} | fields) + "\n"


def validated(minutes: float, step: int, bleu: float) -> str:
    return log_line(minutes, "validated", step=step, scores={"bleu": bleu})


FIRST = [log_line(0, "started", step=0, parameters=7), validated(2, 10, 11.0)]
LAST = [
    log_line(95, "note", text="resumed"),
    log_line(100, "started", step=10, parameters=7),
    validated(103, 20, 12.5),
    log_line(103, "finished", step=20, reason="steps", seconds=300.0),
    log_line(104, "tested", split="test", scores={"bleu": 13.0}),
]


@pytest.mark.parametrize(
    "before_the_pause",
    [
        pytest.param([log_line(2, "saved", step=10), validated(4, 20, 12.5)], id="repeated"),
        pytest.param([], id="killed before the checkpoint was logged"),
    ],
)
def test_the_curve_of_a_resumed_run_has_neither_the_pause_nor_the_repeated_work(
    before_the_pause: list[str], tmp_path: Path
) -> None:
    (tmp_path / "run.toml").write_bytes(SETTINGS.read_bytes())
    (tmp_path / "log.jsonl").write_text("".join([*FIRST, *before_the_pause, *LAST]), encoding="utf-8")
    (run,) = read_runs([tmp_path], "machine")
    assert run.curve == [(2.0, 11.0), (5.0, 12.5)]
    assert run.minutes == run.curve[-1][0]


def test_the_weight_of_r_drop_is_part_of_the_settings(tmp_path: Path) -> None:
    settings = SETTINGS.read_text(encoding="utf-8").replace("[train]", "[train]\nconsistency = 0.5")
    (tmp_path / "run.toml").write_text(settings, encoding="utf-8")
    (tmp_path / "log.jsonl").write_text("".join([*FIRST, *LAST]), encoding="utf-8")
    (run,) = read_runs([tmp_path], "machine")
    assert "R-Drop 0.5" in run.settings


def test_means_over_seeds() -> None:
    def run(name: str, dropout: float = 0.1, **bleu: float) -> FinishedRun:
        scores = {split: {"bleu": value} for split, value in bleu.items()}
        seed = name.partition("-seed")[2] or "1"
        return FinishedRun(name, f"dropout {dropout}, adam, seed {seed}", 7, 1, 1, 1.0, scores, [], "machine")

    runs = [
        run("a", valid=40, test=39),
        run("b", valid=1),
        run("a-seed2", valid=43, test=39.5),
        run("a-seed3", valid=43),
    ]
    assert mean_table(runs)[-1] == "| `a` | 3 | 42.00 ± 1.73 |  |  |"
    assert mean_table(runs[:3])[-1] == "| `a` | 2 | 41.50 ± 2.12 | 39.25 ± 0.35 |  |"
    assert mean_table(runs[:2]) == []
    assert mean_table([*runs[:2], run("a-seed2", dropout=0.2, valid=43)]) == []


def test_the_minutes_of_a_diversified_run_contain_those_of_all_models(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "diversification" / "forward-1", tmp_path / "diversification" / "backward-1"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "run.toml").write_bytes(SETTINGS.read_bytes())
        (folder / "log.jsonl").write_text("".join([*FIRST, *LAST]), encoding="utf-8")
    (run,) = read_runs([tmp_path], "machine")
    assert run.minutes == 15.0
    assert "data diversification with 2 models" in run.settings
