"""Attention as SVG: a drawing that stands alone, or in a page whose style it takes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from glassformer.glass.views import readable, width

CELL = 20

# For a drawing that is not in a page; a page has its own.
STYLE = (
    ".attention{color-scheme:light dark;background:#fff;font:12px system-ui,sans-serif}.attention text{fill:#222}"
    ".attention .cell{fill:#1f5fb4}.attention .edge{fill:none;stroke:#8884;stroke-width:.5}"
    "@media (prefers-color-scheme:dark){.attention{background:#14171c}.attention text{fill:#ddd}"
    ".attention .cell{fill:#7fb2ff}}"
)


def attention_grid(
    rows: Sequence[str], columns: Sequence[str], weights: Sequence[Sequence[float]], *, label: str = "attention weights"
) -> str:
    """One row a query, one column a key; the darker, the more of the attention goes there. Each row sums to 1."""
    left = 8 * max(map(width, rows)) + 10
    top = 6 * max(map(width, columns)) + 16
    slant = 4 * max(map(width, columns)) + 4  # where the last label ends
    across, down = left + CELL * len(columns) + slant, top + CELL * len(rows) + 2
    size = f'viewBox="0 0 {across} {down}" style="max-width:{across * 1.15:.0f}px"'
    parts = [f'<svg class="attention" {size} role="img" aria-label="{escape(label)}">']
    for k, name in enumerate(columns):
        x = left + CELL * k + CELL / 2 + 3
        turned = f'transform="rotate(-55 {x:.0f} {top - 6})"'
        parts.append(f'<text x="{x:.0f}" y="{top - 6}" {turned}>{escape(name)}</text>')
    for q, (name, row) in enumerate(zip(rows, weights, strict=True)):
        y = top + CELL * q
        parts.append(f'<text x="{left - 6}" y="{y + CELL - 6}" text-anchor="end">{escape(name)}</text>')
        for k, (source, weight) in enumerate(zip(columns, row, strict=True)):
            told = escape(f"{name} → {source}: {weight}")
            parts.append(
                f'<rect class="cell" x="{left + CELL * k}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" '
                f'fill-opacity="{weight:g}"><title>{told}</title></rect>'
                f'<rect class="edge" x="{left + CELL * k}" y="{y}" width="{CELL - 1}" height="{CELL - 1}"/>'
            )
    return "".join([*parts, "</svg>"])


def standing_alone(svg: str) -> str:
    """With a name space and a style of its own, for a file or a notebook."""
    opening, rest = svg.removeprefix("<svg").split(">", 1)
    return f'<svg xmlns="http://www.w3.org/2000/svg"{opening}><style>{STYLE}</style>{rest}'


def labels(pieces: Sequence[str]) -> list[str]:
    return [readable(piece) for piece in pieces]
