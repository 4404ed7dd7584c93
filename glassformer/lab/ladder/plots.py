"""The charts of the report as PNG files (pip install glassformer[pictures])."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from glassformer.errors import UserError
from glassformer.files import atomic_write
from glassformer.lab.ladder.charts import DASHES, LIGHT

AXIS_LABELS = {
    "bleu-by-length": ("source length in words", "BLEU"),
    "training": ("steps", "training loss"),
    "gradient": ("k, steps before the end of the source", "g(k) / g(0)"),
}


def draw(report: dict[str, Any], folder: Path) -> list[Path]:
    """Draw all charts and return the files."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UserError(
            "PNG files need matplotlib, which is not installed; report.html contains all charts.",
            hint='pip install "glassformer[pictures]", then repeat the command',
        ) from None
    systems = [(number, system) for number, system in enumerate(report["systems"]) if system["state"] == "done"]
    if not systems:
        return []
    figures = {name: _lines(Figure, name, systems) for name in AXIS_LABELS}
    figures["speed"] = _speeds(Figure, systems)
    if looking := [system for _, system in systems if system["attention"]]:
        figures["attention"] = _attention(Figure, looking)
    written = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a font without Korean draws boxes
        for name, figure in figures.items():
            path = folder / f"{name}.png"
            with atomic_write(path) as temporary:
                figure.savefig(temporary, dpi=150, format="png")
            written.append(path)
    return written


def _points(name: str, system: dict[str, Any]) -> list[tuple[Any, float]]:
    if name == "bleu-by-length":
        return [(words, scored["bleu"]) for words, scored in system["bleu_by_length"].items()]
    if name == "training":
        return [tuple(point) for point in system.get("curve", [])]
    first = next(iter(system["gradient"]), 0)
    return [(k, norm / first) for k, norm in enumerate(system["gradient"]) if first and norm]


def _lines(new: Any, name: str, systems: list[tuple[int, dict[str, Any]]]) -> Any:
    figure = new(figsize=(8.4, 4.4), layout="constrained")
    panel = figure.subplots()
    for number, system in systems:
        if points := _points(name, system):
            dashes = [float(length) / 2 for length in DASHES[number % 10].split()]
            how = {"color": _colour(number), "linestyle": (0, dashes) if dashes else "-", "label": system["title"]}
            panel.plot(*zip(*points, strict=True), marker="o" if name == "bleu-by-length" else "", markersize=4, **how)
    panel.set_xlabel(AXIS_LABELS[name][0])
    panel.set_ylabel(AXIS_LABELS[name][1])
    if name == "gradient":
        panel.set_yscale("log")
    else:
        panel.set_ylim(bottom=0)
    _tidy(panel)
    if panel.lines:
        figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    return figure


def _speeds(new: Any, systems: list[tuple[int, dict[str, Any]]]) -> Any:
    figure = new(figsize=(8.4, 0.9 + 0.32 * len(systems)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    titles = [system["title"] for _, system in systems]
    for panel, name, label in (
        (panels[0], "training_tokens_per_second", "training, target tokens/s"),
        (panels[1], "decoding_tokens_per_second", "decoding, target tokens/s"),
    ):
        values = [system.get(name) or 0 for _, system in systems]
        panel.barh(titles, values, color=[_colour(number) for number, _ in systems], height=0.7)
        panel.set_xlabel(label)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        panel.locator_params(axis="x", nbins=4)
        panel.margins(x=0.08)
        _tidy(panel)
        panel.grid(visible=False, axis="y")
    panels[0].invert_yaxis()
    return figure


def _attention(new: Any, systems: list[dict[str, Any]]) -> Any:
    across = min(3, len(systems))
    down = -(-len(systems) // across)
    figure = new(figsize=(4.2 * across, 4.2 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flatten()
    for panel in panels[len(systems) :]:
        panel.set_axis_off()
    for panel, system in zip(panels, systems, strict=False):
        attention = system["attention"]
        panel.imshow(attention["weights"], cmap="Blues", vmin=0, vmax=1)
        panel.set_title(system["title"], fontsize="medium")
        for set_ticks, names, turned in (
            (panel.set_xticks, attention["source"], 60),
            (panel.set_yticks, attention["target"], 0),
        ):
            set_ticks(range(len(names)), [n.replace("▁", "") or "▁" for n in names], rotation=turned, fontsize="small")
    return figure


def _colour(number: int) -> str:
    """Return the colour that the HTML page uses."""
    return f"#{LIGHT[number % 10]}"


def _tidy(panel: Any) -> None:
    panel.grid(visible=True, color="0.9")
    panel.set_axisbelow(True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
