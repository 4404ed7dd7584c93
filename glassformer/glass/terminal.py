"""Views of traces, search trees and interventions as lines of text, for a terminal."""

from __future__ import annotations

from glassformer.glass.effects import HeadAblation, InterventionEffect
from glassformer.glass.heatmap import Heatmap, attention_heatmap, display_token, display_tokens, pad_text, text_width
from glassformer.glass.search_tree import ENDED, KEPT, SearchTree
from glassformer.glass.teacher_forcing import TeacherForcingComparison
from glassformer.glass.trace import NextToken, Trace
from glassformer.glass.view_texts import view_text

SHADES = ((0.85, "█"), (0.6, "▓"), (0.35, "▒"), (0.15, "░"), (0.05, "·"))  # lowest value → character
LEGEND = "  ".join(f"{block} ≥ {least:.0%}" for least, block in reversed(SHADES))


def heatmap_view(heatmap: Heatmap) -> list[str]:
    """Draw one line per row, one block per column; a higher value is darker."""
    left = max(map(text_width, heatmap.rows))
    cells = [max(3, text_width(column)) for column in heatmap.columns]
    header = " ".join(pad_text(column, cell) for column, cell in zip(heatmap.columns, cells, strict=True))
    lines = [" " * (left + 2) + header]
    for label, values in zip(heatmap.rows, heatmap.values, strict=True):
        blocks = (shade(value) * cell for value, cell in zip(values, cells, strict=True))
        lines.append(f"{pad_text(label, left, right=True)}  " + " ".join(blocks).rstrip())
    return lines


def shade(value: float) -> str:
    """Return the character of a value between 0 and 1."""
    return next((block for least, block in SHADES if value >= least), " ")


def attention_view(trace: Trace, kind: str = "cross", layer: int = -1, head: int | None = None) -> list[str]:
    """Draw the attention weights of one layer: one head, or the mean of all."""
    return [*heatmap_view(attention_heatmap(trace, trace.attention_layer(kind, layer), head)), "", LEGEND]


def next_tokens_view(trace: Trace, count: int = 5) -> list[str]:
    """List the most probable next tokens after each token, with their probabilities."""
    read = display_tokens(trace.target or trace.source)
    left = max(map(text_width, read))
    rows = zip(read, trace.next_tokens(count), strict=False)
    return [f"{pad_text(token, left, right=True)}  {_probabilities(following)}" for token, following in rows]


def teacher_forcing_view(comparison: TeacherForcingComparison) -> list[str]:
    """Show the target, the free-running output, and where they diverge."""
    step = comparison.divergence
    if step is None:
        return [view_text("same")]
    target, output = display_tokens(comparison.target), display_tokens(comparison.free.written)
    given, own = (tokens[step] if step < len(tokens) else "–" for tokens in (target, output))
    return [
        " ".join(target),
        " ".join(output),
        view_text("diverges", step=step, given=given, own=own),
        _probabilities(comparison.at_divergence()),
    ]


def _probabilities(tokens: list[NextToken]) -> str:
    return "  ".join(f"{display_token(token.piece)} {token.probability:.3f}" for token in tokens)


def search_tree_view(tree: SearchTree) -> list[str]:
    """Draw the kept and ended candidates of a beam search, each under its parent, and the ranked outputs."""
    below: dict[int, list[int]] = {}
    for node in tree.nodes[1:]:
        if node.fate in (KEPT, ENDED):
            below.setdefault(node.parent, []).append(node.number)
    lines, stack = [], [(number, 0) for number in reversed(below.get(0, []))]
    while stack:
        number, depth = stack.pop()
        node = tree.nodes[number]
        mark = "■" if node.fate == ENDED else "└"
        lines.append(f"{'  ' * depth}{mark} {display_token(node.piece)}  {node.total:.3f}")
        stack += [(child, depth + 1) for child in reversed(below.get(number, []))]
    ranked = [f"{rank}. {output.text}  {output.score:.4f}" for rank, output in enumerate(tree.finished, 1)]
    return [*lines, "", *ranked]


def effect_view(effect: InterventionEffect, before: str, after: str) -> list[str]:
    """List the log-probability of each token before and after interventions, their sums, and both outputs."""
    labels = display_tokens(effect.written)
    left = max(map(text_width, labels))
    lines = [f"{'':{left}}  {view_text('before'):>9}  {view_text('after'):>9}  {view_text('change'):>9}"]
    for label, was, now in zip(labels, effect.before, effect.after, strict=True):
        lines.append(f"{pad_text(label, left, right=True)}  {was:9.4f}  {now:9.4f}  {now - was:+9.4f}")
    lines.append(f"{'':{left}}  {sum(effect.before):9.4f}  {sum(effect.after):9.4f}  {effect.change:+9.4f}")
    return [*lines, "", f"{view_text('before')}: {before}", f"{view_text('after')}: {after}"]


def head_ablation_view(ablation: HeadAblation) -> list[str]:
    """Show the change in log-probability for every layer (rows) and head (columns)."""
    heads = max(map(len, ablation.change))
    lines = [f"{view_text('layer')}  " + " ".join(f"{head:>8}" for head in range(heads))]
    for layer, row in enumerate(ablation.change):
        lines.append(f"{layer:>5}  " + " ".join(f"{change:+8.3f}" for change in row))
    return [*lines, "", view_text("ablation")]
