"""Pictures of a trace in characters, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import east_asian_width

from torch import Tensor

from glassformer.errors import UserError
from glassformer.glass.beside import Beside
from glassformer.glass.effects import Effect, Grid
from glassformer.glass.trace import Trace
from glassformer.glass.tree import ENDED, KEPT, SearchTree
from glassformer.glass.words import say

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
    return attention_view(trace, "cross", layer)


def attention_view(trace: Trace, kind: str = "cross", layer: int = -1, head: int | None = None) -> list[str]:
    """Where each row of one layer looked: one head, or the mean of all."""
    look = trace.look(kind, layer)
    return [*attention_grid(one_head(trace[look.name], head), look.rows, look.columns), "", LEGEND]


def one_head(weights_HQK: Tensor, head: int | None) -> Tensor:
    """The weights of one head, or the mean of all."""
    if head is None:
        return weights_HQK.mean(dim=0)
    if not 0 <= head < len(weights_HQK):
        raise UserError(
            f"There is no head {head}.", where="--head", hint=f"take one from 0 to {len(weights_HQK) - 1}, or none"
        )
    return weights_HQK[head]


def choices_view(trace: Trace, most: int = 5) -> list[str]:
    """What could have come next after each piece, with its probability."""
    left = max(width(readable(piece)) for piece in trace.target or trace.source)
    rows = zip(trace.target or trace.source, trace.choices(most), strict=False)
    return [
        f"{' ' * (left - width(readable(read)))}{readable(read)}  "
        + "  ".join(f"{readable(choice.piece)} {choice.probability:.3f}" for choice in choices)
        for read, choices in rows
    ]


def beside_view(beside: Beside) -> list[str]:
    """Teacher forcing and free running, piece by piece, and where they part."""
    step = beside.divergence
    if step is None:
        return [say("same")]
    given = dict(enumerate(beside.forced.written)).get(step, "–")
    own = dict(enumerate(beside.free.written)).get(step, "–")
    likely = "  ".join(f"{readable(choice.piece)} {choice.probability:.3f}" for choice in beside.at_divergence())
    return [
        " ".join(map(readable, beside.forced.written)),
        " ".join(map(readable, beside.free.written)),
        say("diverges", step=step, given=readable(given), own=readable(own)),
        likely,
    ]


def tree_view(tree: SearchTree) -> list[str]:
    """The hypotheses of a search, a line a candidate that was kept or ended, under its parent."""
    below: dict[int, list[int]] = {}
    for node in tree.nodes[1:]:
        if node.fate in (KEPT, ENDED):
            below.setdefault(node.parent, []).append(node.number)
    lines, waiting = [], [(number, 0) for number in reversed(below.get(0, []))]
    while waiting:
        number, depth = waiting.pop()
        node = tree.nodes[number]
        mark = "■" if node.fate == ENDED else "└"
        lines.append(f"{'  ' * depth}{mark} {readable(node.piece)}  {node.total:.3f}")
        waiting += [(child, depth + 1) for child in reversed(below.get(number, []))]
    ranked = [f"{place}. {output.text}  {output.score:.4f}" for place, output in enumerate(tree.finished, 1)]
    return [*lines, "", *ranked]


def effect_view(effect: Effect, before: str, after: str) -> list[str]:
    """What changes did: each piece's log-probability before and after, their sum, and what is written instead."""
    left = max(map(width, map(readable, effect.written)))
    lines = [f"{'':{left}}  {say('before'):>9}  {say('after'):>9}  {say('change'):>9}"]
    for piece, was, now in zip(effect.written, effect.before, effect.after, strict=True):
        label = readable(piece)
        lines.append(f"{' ' * (left - width(label))}{label}  {was:9.4f}  {now:9.4f}  {now - was:+9.4f}")
    lines.append(f"{'':{left}}  {sum(effect.before):9.4f}  {sum(effect.after):9.4f}  {effect.change:+9.4f}")
    return [*lines, "", f"{say('before')}: {before}", f"{say('after')}: {after}"]


def grid_view(grid: Grid) -> list[str]:
    """The change for every layer (down) and head (across)."""
    heads = max(map(len, grid.change))
    lines = [f"{say('layer')}  " + " ".join(f"{head:>8}" for head in range(heads))]
    lines += [f"{layer:>5}  " + " ".join(f"{change:+8.3f}" for change in row) for layer, row in enumerate(grid.change)]
    return [*lines, "", say("silenced")]


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
