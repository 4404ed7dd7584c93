"""Pictures of a trace in characters, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import east_asian_width

from torch import Tensor

from glassformer.glass.trace import Trace

SHADES = ((0.85, "█"), (0.6, "▓"), (0.35, "▒"), (0.15, "░"), (0.05, "·"))  # weight at least → block
LEGEND = "  ".join(f"{block} ≥ {least:.0%}" for least, block in reversed(SHADES))


def attention_grid(weights_QK: Tensor, rows: Sequence[str], columns: Sequence[str]) -> list[str]:
    """One line a query, one block a key; the darker, the more of the attention goes there. Each row sums to 1."""
    labels = [readable(piece) for piece in rows]
    left = max(map(width, labels))
    heads = [readable(piece) for piece in columns]
    cells = [max(3, width(head)) for head in heads]
    lines = [" " * (left + 2) + " ".join(pad(head, cell) for head, cell in zip(heads, cells, strict=True))]
    for label, row in zip(labels, weights_QK.tolist(), strict=True):
        blocks = (shade(weight) * cell for weight, cell in zip(row, cells, strict=True))
        lines.append(f"{' ' * (left - width(label))}{label}  " + " ".join(blocks).rstrip())
    return lines


def cross_attention_view(trace: Trace, layer: int = -1) -> list[str]:
    """Where the decoder looked while it wrote each piece: the mean over the heads of one layer."""
    weights_QK = trace.attention("cross", layer).mean(dim=0)
    # Row i is the decoder reading target[i] and writing what follows, so it is named after what it wrote.
    written = [*trace.target[1:], trace.predicted[-1]]
    return [*attention_grid(weights_QK, written, trace.source), "", LEGEND]


def self_attention_view(trace: Trace, layer: int = -1) -> list[str]:
    """Where each piece looked among those of its own text: the mean over the heads of one layer."""
    kind, pieces = ("encoder", trace.source) if trace.source else ("decoder", trace.target)
    weights_QK = trace.attention(kind, layer).mean(dim=0)
    return [*attention_grid(weights_QK, pieces, pieces), "", LEGEND]


def readable(piece: str) -> str:
    """A piece without its word mark; a bare mark stays visible."""
    return piece.lstrip("▁") or "▁"


def shade(weight: float) -> str:
    return next((block for least, block in SHADES if weight >= least), " ")


def width(text: str) -> int:
    """Columns on the screen: Korean and Chinese characters take two."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def pad(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))
