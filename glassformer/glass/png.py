"""Attention heat maps as PNG, drawn by matplotlib (an optional dependency)."""

from __future__ import annotations

import warnings
from pathlib import Path

from glassformer.errors import UserError
from glassformer.files import atomic_write
from glassformer.glass.heatmap import attention_heatmap, layer_title
from glassformer.glass.trace import AttentionLayer, Trace
from glassformer.glass.view_texts import view_text


def write_png(trace: Trace, layer: AttentionLayer, path: Path, head: int | None = None) -> None:
    """Draw all heads of a layer side by side, or one of them."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UserError(view_text("no picture"), hint='pip install "glassformer[pictures]", or use --svg') from None
    heads = range(len(trace[layer.name])) if head is None else [head]
    across = min(4, len(heads))
    down = -(-len(heads) // across)
    size = (across * (1.2 + 0.3 * len(layer.columns)), down * (1.4 + 0.3 * len(layer.rows)))
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(layer_title(layer))
    for place, number in enumerate(heads, 1):
        heatmap = attention_heatmap(trace, layer, number)
        axes = figure.add_subplot(down, across, place)
        axes.imshow(heatmap.values, cmap="Blues", vmin=0, vmax=1)
        axes.set_title(f"{view_text('head')} {number}", fontsize=10)
        axes.set_xticks(range(len(heatmap.columns)), heatmap.columns, rotation=60, ha="right", fontsize=8)
        axes.set_yticks(range(len(heatmap.rows)), heatmap.rows, fontsize=8)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a font without Korean draws boxes
        with atomic_write(path, elsewhere="--png") as temporary:
            figure.savefig(temporary, format="png", dpi=150)
