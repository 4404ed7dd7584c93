"""How a large corpus is prepared: time and memory, beside what the `tokenizers` library alone needs for its part."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from glassformer.errors import UserError
from glassformer.files import write_text
from glassformer.lab.bench import processes
from glassformer.lab.bench.runner import BENCH, OURS, Row, Tell

STEPS = ("generate", "prepare", "start", "tokenizers")
HOURS = 3  # for one step at most


def run(pairs: int, tell: Tell) -> list[Row]:
    """Generates a corpus in a temporary folder and measures each step on it, in a process of its own."""
    if not (BENCH / "preparation.py").exists():
        raise UserError("The benchmark is not installed with the package.", hint="clone the repository")
    rows = []
    with tempfile.TemporaryDirectory(prefix="glassformer-") as folder:
        for step in STEPS:
            tell(f"{step}, {pairs:,} pairs")
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
    """Markdown. `training` is how many tokens a second training consumes."""
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
    against = f", {speed / training:,.0f} times what training of the tiny model consumes" if training else ""
    return [
        *lines,
        "",
        f"Preparation takes {_times(ours, alone, '')} times the seconds and {_times(ours, alone, '_cores')} times the "
        f"core-seconds of `tokenizers` alone ({_times(ours, bare, '')} and {_times(ours, bare, '_cores')} times "
        "without its normalizer).",
        "",
        f"Start from the prepared corpus: {start['seconds']:.1f} seconds to the first batch (model and imports apart), "
        f"{start['peak_megabytes']:,.0f} MB at most, PyTorch included.",
        "",
        f"Batches read from the store: {speed:,.0f} target tokens a second{against}.",
    ]


PARTS = ("reading", "vocabulary", "encoding")


def _total(result: dict[str, float], cores: str) -> float:
    return sum(result.get(part + cores, 0.0) for part in PARTS)


def _times(ours: dict[str, float], theirs: dict[str, float], cores: str) -> str:
    return f"{_total(ours, cores) / _total(theirs, cores):.2f}"


def _line(name: str, result: dict[str, float]) -> str:
    parts = " | ".join(f"{result[part]:,.0f}" if part in result else "" for part in PARTS)
    totals = f"{_total(result, ''):,.0f} | {_total(result, '_cores'):,.0f}"
    return f"| {name} | {totals} | {parts} | {result['peak_megabytes']:,.0f} |"


def save(rows: list[Row], command: str, machine: str, folder: Path) -> Path:
    """Keeps the results and writes the page of them. Gives the page."""
    kept = {"command": command, "machine": machine, "rows": [vars(row) for row in rows]}
    write_text(folder / "preparation.json", json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    pairs, size = rows[0].results[0]["pairs"], rows[0].results[0]["megabytes"]
    lines = [
        "# Preparation of a large corpus",
        "",
        f"Written by `{command}`, {machine}.",
        "",
        f"{pairs:,} generated pairs of 4 to 20 words ({size:,.0f} MB), from 60,000 words a side with Zipf's "
        "distribution; a subword vocabulary of 32,000, learnt from at most a million pairs. Each step runs in a "
        "process of its own; memory is that of all its processes together, what they share counted once. `tokenizers` "
        "alone learns from as many lines and encodes with its own threads (a million pairs, times what there are): its "
        "ids are not looked at, nothing is checked or written.",
        "",
        *table(rows, training_speed(folder)),
    ]
    page = folder / "preparation.md"
    write_text(page, "\n".join(lines) + "\n")
    return page


def training_speed(folder: Path) -> float | None:
    """Tokens a second of the tiny model, the quickest to consume, as `glassformer bench train` found."""
    try:
        kept: dict[str, Any] = json.loads((folder / "speed" / "train.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not measured yet
        return None
    rows = [Row(**row) for row in kept["rows"]]
    speeds = [r.median("tokens_per_second") for r in rows if (r.case, r.contender) == ("training, tiny", OURS)]
    return speeds[0] if speeds else None
