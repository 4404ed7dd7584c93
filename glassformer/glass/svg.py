"""Heat maps as SVG."""

from __future__ import annotations

from html import escape

from glassformer.glass.heatmap import Heatmap, text_width

CELL = 20

# Style of a stand-alone drawing; a page has its own.
STYLE = (
    ".attention{color-scheme:light dark;background:#fff;font:12px system-ui,sans-serif}.attention text{fill:#222}"
    ".attention .cell{fill:#1f5fb4}.attention .edge{fill:none;stroke:#8884;stroke-width:.5}"
    "@media (prefers-color-scheme:dark){.attention{background:#14171c}.attention text{fill:#ddd}"
    ".attention .cell{fill:#7fb2ff}}"
)


def heatmap_svg(heatmap: Heatmap) -> str:
    """Draw a heat map for a page that has the style."""
    rows, columns = heatmap.rows, heatmap.columns
    left = 8 * max(map(text_width, rows)) + 10
    top = 6 * max(map(text_width, columns)) + 16
    slant = 4 * max(map(text_width, columns)) + 4  # width of the last, rotated label
    width, height = left + CELL * len(columns) + slant, top + CELL * len(rows) + 2
    size = f'viewBox="0 0 {width} {height}" style="max-width:{width * 1.15:.0f}px"'
    parts = [f'<svg class="attention" {size} role="img" aria-label="{escape(heatmap.title)}">']
    for k, name in enumerate(columns):
        x = left + CELL * k + CELL / 2 + 3
        rotation = f'transform="rotate(-55 {x:.0f} {top - 6})"'
        parts.append(f'<text x="{x:.0f}" y="{top - 6}" {rotation}>{escape(name)}</text>')
    for q, (name, values) in enumerate(zip(rows, heatmap.values, strict=True)):
        y = top + CELL * q
        parts.append(f'<text x="{left - 6}" y="{y + CELL - 6}" text-anchor="end">{escape(name)}</text>')
        for k, (column, value) in enumerate(zip(columns, values, strict=True)):
            title = escape(f"{name} → {column}: {value}")
            parts.append(
                f'<rect class="cell" x="{left + CELL * k}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" '
                f'fill-opacity="{value:g}"><title>{title}</title></rect>'
                f'<rect class="edge" x="{left + CELL * k}" y="{y}" width="{CELL - 1}" height="{CELL - 1}"/>'
            )
    return "".join([*parts, "</svg>"])


def standalone_svg(heatmap: Heatmap) -> str:
    """Draw a heat map with its own namespace and style, for a file or a notebook."""
    opening, rest = heatmap_svg(heatmap).removeprefix("<svg").split(">", 1)
    return f'<svg xmlns="http://www.w3.org/2000/svg"{opening}><style>{STYLE}</style>{rest}'
