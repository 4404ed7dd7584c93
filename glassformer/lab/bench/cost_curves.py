"""Cost curves: speed and memory as a function of length, batch size, beam size, layers and vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glassformer.lab.bench.figures import new_figure, save_figure
from glassformer.lab.bench.runner import OURS, Case, Row

TRAINING, DECODING = "training", "decoding"
COLORS = {TRAINING: "tab:blue", DECODING: "tab:orange"}

# Varied quantity: the option of `bench/one.py`, its values, and the phases it affects.
AXES: dict[str, tuple[str, list[int], tuple[str, ...]]] = {
    "sentence length": ("source-length", [8, 16, 32, 64, 128, 256, 512, 1024], (TRAINING, DECODING)),
    "batch": ("batch", [1, 2, 4, 8, 16, 32, 64, 128], (DECODING,)),
    "beam": ("beam", [1, 2, 4, 8, 16], (DECODING,)),
    "layers": ("layers", [1, 2, 4, 8, 16], (TRAINING, DECODING)),
    "vocabulary": ("vocab", [1000, 4000, 16000, 64000], (TRAINING, DECODING)),
}

SMALL = {"size": "tiny", "source-length": 16}
TRAINED = SMALL | {"batches": 2}
DECODED = SMALL | {"sentences": 128, "length": 30}


def cases() -> list[Case]:
    """Return one case per point of every curve: the tiny model with one quantity varied."""
    found = []
    for axis, (option, values, where) in AXES.items():
        for value in values:
            for kind in where:
                found.append(_case(axis, option, value, kind))
    return found


def _case(axis: str, option: str, value: int, kind: str) -> Case:
    what, fixed = ("train", TRAINED) if kind == TRAINING else ("decode", DECODED)
    changed: dict[str, Any] = fixed | {option: value}
    if kind == DECODING and option == "source-length":  # the output is as long as the source
        changed |= {
            "length": value,
            "sentences": max(64, min(128, 8192 // value)),
            "batch": max(1, min(32, 4096 // value)),
        }
    if option == "batch":
        changed["sentences"] = max(128, 2 * value)  # enough for two workers
    return Case(f"{kind}, {axis} {value}", what, changed)


def table(rows: list[Row]) -> list[str]:
    """Return a Markdown table with speed and memory of training and decoding for every value."""
    by_case = {row.case: row for row in rows if row.contender == OURS}
    lines = [
        "| varied | value | training tokens/s | training peak MB | decoding tokens/s | decoding peak MB |",
        "|---|---|---|---|---|---|",
    ]
    for axis, (_, values, _) in AXES.items():
        for value in values:
            cells = [_cell(by_case.get(f"{kind}, {axis} {value}")) for kind in (TRAINING, DECODING)]
            if any(cells):
                lines.append(f"| {axis} | {value:,} | {' | '.join(cell or ' | ' for cell in cells)} |")
    return lines


def _cell(row: Row | None) -> str:
    return f"{row.median('tokens_per_second'):,.0f} | {row.median('peak_megabytes'):,.0f}" if row else ""


def draw(rows: list[Row], path: Path) -> None:
    """Draw the curves: one column per varied quantity, speed above, memory below."""
    by_case = {row.case: row for row in rows if row.contender == OURS}
    figure = new_figure(3.2 * len(AXES), 5.6)
    panels = figure.subplots(2, len(AXES), sharex="col", sharey="row", squeeze=False)
    for column, (axis, (_, values, where)) in enumerate(AXES.items()):
        for kind in where:
            known = [(v, by_case[name]) for v in values if (name := f"{kind}, {axis} {v}") in by_case]
            for line, measure in enumerate(("tokens_per_second", "peak_megabytes")):
                heights = [row.median(measure) for _, row in known]
                panels[line][column].plot(
                    [v for v, _ in known], heights, marker="o", markersize=4, color=COLORS[kind], label=kind
                )
        panels[1][column].set_xlabel(axis)
        for line in (0, 1):
            panel = panels[line][column]
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            panel.grid(visible=True, which="major", color="0.9")
            panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            panel.yaxis.set_minor_formatter(lambda value, _: f"{value:,.0f}" if f"{value:.0f}"[0] in "25" else "")
    panels[0][0].set_ylabel("tokens/s")
    panels[1][0].set_ylabel("peak MB")
    panels[0][0].legend(frameon=False)
    save_figure(figure, path)
