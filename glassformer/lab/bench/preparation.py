"""Benchmark of corpus preparation: time and memory, compared with the `tokenizers` library alone."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from glassformer.files import write_text
from glassformer.lab.bench import processes
from glassformer.lab.bench.runner import BENCH, OURS, Log, Row, require_scripts

STEPS = ("generate", "prepare", "start", "tokenizers")
HOURS = 3  # time limit per step


def run(pairs: int, log: Log) -> list[Row]:
    """Generate a corpus in a temporary folder and measure each step in a separate process."""
    require_scripts()
    rows = []
    with tempfile.TemporaryDirectory(prefix="glassformer-") as folder:
        for step in STEPS:
            log(f"{step}, {pairs:,} pairs")
            result = _measure(step, Path(folder), pairs)
            contender = "tokenizers" if step == "tokenizers" else OURS
            rows.append(Row(step, contender, f"{contender} {version(contender)}", [result | {"pairs": pairs}]))
    return rows


def _measure(step: str, folder: Path, pairs: int) -> dict[str, float]:
    command = [sys.executable, str(BENCH / "preparation.py"), step, str(folder), str(pairs)]
    done = processes.run(command, threads=1, timeout=3600 * HOURS)
    result = processes.result_of(done, command, f"The step '{step}'")
    return result | {"process_seconds": done.seconds, "peak_megabytes": done.peak_megabytes}


def table(rows: list[Row], training: float | None = None) -> list[str]:
    """Return the results as Markdown. `training` is the training speed in tokens per second."""
    found = {row.case: row.results[0] for row in rows}
    names = {row.case: row.version for row in rows}
    ours, alone, start = found["prepare"], found["tokenizers"], found["start"]
    bare = alone | {"encoding": alone["without_normalizer"], "encoding_cores": alone["without_normalizer_cores"]}
    lines = [
        "| | seconds | core-seconds | reading, checking | vocabulary | encoding | peak MB |",
        "|---|---|---|---|---|---|---|",
        _line(names["prepare"], ours),
        _line(names["tokenizers"], alone),
        _line(f"{names['tokenizers']}, without its normalizer", bare),
    ]
    speed = start["tokens_per_second"]
    against = f", {speed / training:,.0f} times the training speed of the tiny model" if training else ""
    return [
        *lines,
        "",
        f"Preparation takes {_times(ours, alone, '')} times the seconds and {_times(ours, alone, '_cores')} times "
        f"the core-seconds of `tokenizers` alone ({_times(ours, bare, '')} and {_times(ours, bare, '_cores')} times "
        "without its normalizer).",
        "",
        f"Start from the prepared corpus: {start['seconds']:.1f} seconds to the first batch (without model and "
        f"imports), peak memory {start['peak_megabytes']:,.0f} MB including PyTorch.",
        "",
        f"Batches read from the store: {speed:,.0f} target tokens per second{against}.",
    ]


PARTS = ("reading", "vocabulary", "encoding")


def _total(result: dict[str, float], cores: str) -> float:
    return sum(result.get(part + cores, 0.0) for part in PARTS)


def _times(ours: dict[str, float], peer: dict[str, float], cores: str) -> str:
    return f"{_total(ours, cores) / _total(peer, cores):.2f}"


def _line(name: str, result: dict[str, float]) -> str:
    parts = " | ".join(f"{result[part]:,.0f}" if part in result else "" for part in PARTS)
    totals = f"{_total(result, ''):,.0f} | {_total(result, '_cores'):,.0f}"
    return f"| {name} | {totals} | {parts} | {result['peak_megabytes']:,.0f} |"


def save(rows: list[Row], command: str, machine: str, folder: Path) -> Path:
    """Save the results, write the page and return its path."""
    kept = {"command": command, "machine": machine, "rows": [vars(row) for row in rows]}
    write_text(folder / "preparation.json", json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    pairs, size = rows[0].results[0]["pairs"], rows[0].results[0]["megabytes"]
    lines = [
        "# Preparation of a large corpus",
        "",
        f"Written by `{command}`, {machine}.",
        "",
        f"{pairs:,} generated pairs of 4 to 20 words ({size:,.0f} MB), from 60,000 words per side with a Zipf "
        "distribution; a subword vocabulary of 32,000, trained on at most a million pairs. Each step runs in a "
        "separate process; memory is the sum over its processes, with shared memory counted once. `tokenizers` "
        "alone trains on as many lines and encodes with its own threads (a million pairs, extrapolated); it checks "
        "and writes nothing.",
        "",
        *table(rows, training_speed(folder)),
    ]
    page = folder / "preparation.md"
    write_text(page, "\n".join(lines) + "\n")
    return page


def training_speed(folder: Path) -> float | None:
    """Return the training speed of the tiny model in tokens per second, measured by `glassformer bench train`."""
    try:
        kept: dict[str, Any] = json.loads((folder / "speed" / "train.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not measured yet
        return None
    rows = [Row(**row) for row in kept["rows"]]
    speeds = [r.median("tokens_per_second") for r in rows if (r.case, r.contender) == ("training, tiny", OURS)]
    return speeds[0] if speeds else None
