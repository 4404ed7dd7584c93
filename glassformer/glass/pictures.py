"""Attention as PNG, by matplotlib, which is an extra."""

from __future__ import annotations

import warnings
from pathlib import Path

from torch import Tensor

from glassformer.errors import UserError
from glassformer.files import atomic_write
from glassformer.glass.svg import labels
from glassformer.glass.trace import Look, Trace
from glassformer.glass.words import say


def draw(trace: Trace, look: Look, path: Path, head: int | None = None) -> None:
    """Every head of one layer side by side, or one of them."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UserError(say("no picture"), hint='pip install "glassformer[pictures]", or take --svg') from None
    weights_HQK: Tensor = trace[look.name]
    numbers = range(len(weights_HQK)) if head is None else [head]
    across = min(4, len(numbers))
    down = -(-len(numbers) // across)
    rows, columns = labels(look.rows), labels(look.columns)
    size = (across * (1.2 + 0.3 * len(columns)), down * (1.4 + 0.3 * len(rows)))
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(f"{say('title')}: {say(look.kind)}, {say('layer')} {look.layer}")
    for place, number in enumerate(numbers):
        axes = figure.add_subplot(down, across, place + 1)
        axes.imshow(weights_HQK[number].numpy(), cmap="Blues", vmin=0, vmax=1)
        axes.set_title(f"{say('head')} {number}", fontsize=10)
        axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", fontsize=8)
        axes.set_yticks(range(len(rows)), rows, fontsize=8)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a font without Korean draws boxes
        with atomic_write(path, elsewhere="--png") as beside:
            figure.savefig(beside, format="png", dpi=150)
