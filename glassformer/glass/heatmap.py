"""Attention weights as a heat map: labels and values, which the terminal, SVG, PNG and HTML views draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

from torch import Tensor

from glassformer.errors import UserError
from glassformer.glass.trace import AttentionLayer, Trace
from glassformer.glass.view_texts import view_text


@dataclass(frozen=True)
class Heatmap:
    """Values between 0 and 1 with row and column labels. In attention, each row is a query and sums to 1."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    title: str = "attention weights"


def attention_heatmap(trace: Trace, layer: AttentionLayer, head: int | None = None) -> Heatmap:
    """Return the heat map of one head of an attention layer, or of the mean over its heads."""
    of_head = view_text("mean") if head is None else f"{view_text('head')} {head}"
    return Heatmap(
        display_tokens(layer.rows),
        display_tokens(layer.columns),
        head_weights(trace[layer.name], head).tolist(),
        f"{layer_title(layer)}, {of_head}",
    )


def layer_title(layer: AttentionLayer) -> str:
    return f"{view_text(layer.kind)}, {view_text('layer')} {layer.layer}"


def head_weights(weights_HQK: Tensor, head: int | None) -> Tensor:
    """Return the weights of one head, or their mean over the heads, Q×K."""
    if head is None:
        return weights_HQK.mean(dim=0)
    if not 0 <= head < len(weights_HQK):
        raise UserError(f"There is no head {head}.", where="--head", hint=f"use 0 to {len(weights_HQK) - 1}")
    return weights_HQK[head]


def display_token(token: str) -> str:
    """Return a token without its word mark; a token that is only the mark stays visible."""
    return token.lstrip("▁") or "▁"


def display_tokens(tokens: Sequence[str]) -> list[str]:
    return [display_token(token) for token in tokens]


def text_width(text: str) -> int:
    """Return the number of terminal columns of a text: Korean and Chinese characters take two."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def pad_text(text: str, columns: int, *, right: bool = False) -> str:
    """Pad a text with spaces to a number of terminal columns; `right` aligns it to the right."""
    spaces = " " * (columns - text_width(text))
    return spaces + text if right else text + spaces
