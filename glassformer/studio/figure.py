"""The architecture as blocks and arrows, read from a trace, so that figure and code cannot disagree.

Names stand in the order of the pass. Those that belong together are a block (`encoder.0.self`), and an arrow goes from
one block to another where the recipe of a tensor of the second asks for a tensor of the first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from glassformer.glass.parents import Parents
from glassformer.glass.recipes import NoFormula
from glassformer.studio.asking import Seen

AROUND = ("residual", "mean", "deviation", "norm")  # of a sub-layer
# What stands at the ends of a side, by the last part of its name.
ENDS = {
    "embedding": ("tokens", "vectors", "embedding", "segments", "segment_vectors", "pixels", "image"),
    "positions": ("positions",),
    "input": ("sum", "input", "window"),
    "end": ("memory", "hidden"),
}
PLACES = {last: part for part, names in ENDS.items() for last in names}
SIDES = ("encoder", "decoder")


@dataclass(frozen=True)
class Block:
    """Tensors that belong together. `layer` is None at the two ends of a side."""

    id: str
    side: str
    layer: int | None
    kind: str
    tensors: list[str]


def figure_of(seen: Seen) -> dict[str, Any]:
    """Return blocks in the order of the pass, arrows between them, and the tensors that have no formula.

    They are the same for all sentences, so they are kept.
    """
    names = tuple(seen.trace.tensors)
    figures = seen.opened.figures
    if names not in figures:
        blocks = blocks_of(names)
        arrows, missing = arrows_of(blocks, seen.trace.parents(seen.opened.model))
        figures[names] = {"blocks": [asdict(block) for block in blocks], "arrows": arrows, "missing": missing}
    return figures[names]


def blocks_of(names: tuple[str, ...]) -> list[Block]:
    groups: dict[str, list[str]] = {}
    for place, name in enumerate(names):
        path, part = name.rpartition(".")[0], _part(names, place)
        if part == "around":  # a sub-layer may have some of it before, and some after
            part = "after" if f"{path}:" in groups else "before"
        groups.setdefault(f"{path}:{part}", []).append(name)
    # By its last tensor: a recurrent decoder's state begins with the encoder's, before its own tokens are read.
    order = sorted(groups, key=lambda group: names.index(groups[group][-1]))
    return [_block(group, groups[group]) for group in order]


def arrows_of(blocks: list[Block], parents: Parents) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the arrows between blocks, and the tensors whose arrows are missing because they have no formula."""
    home = {name: block.id for block in blocks for name in block.tensors}
    arrows: dict[tuple[str, str], None] = {}
    missing: list[str] = []
    for name, block in home.items():
        try:
            recipe = parents.of(name)
        except NoFormula:  # the page says which
            missing.append(name)
            continue
        for parent in () if recipe is None else recipe.tensors.values():
            if home[parent] != block:
                arrows[home[parent], block] = None
    return list(arrows), missing


def _part(names: tuple[str, ...], place: int) -> str:
    """What a tensor is to its sub-layer or side."""
    path, _, last = names[place].rpartition(".")
    if path in SIDES:
        if last in ("mean", "deviation"):  # they belong to what is normalised by them
            return _part(names, place + 1)
        return PLACES.get(last, "end")
    inside = path.rpartition(".")[2] in ("self", "ff", "cross") and path.count(".") == 2
    return "around" if inside and last in AROUND else ""


def _block(group: str, tensors: list[str]) -> Block:
    path, part = group.split(":")
    side, *inner = path.split(".")
    layer = int(inner[0]) if inner and inner[0].isdigit() else None
    kind = _kind(path, part, {name.rpartition(".")[2] for name in tensors})
    return Block(group.rstrip(":") or "output", side or "output", layer, kind, tensors)


def _kind(path: str, part: str, lasts: set[str]) -> str:
    if part in ("before", "after"):
        added, normalised = "residual" in lasts, "norm" in lasts
        return "add_norm" if added and normalised else "add" if added else "norm"
    if part == "embedding" and "image" in lasts:
        return "patches"
    if part:
        return part
    if "weights" in lasts:
        inner = path.rpartition(".")[2]
        masked = "mask" in lasts
        return "cross" if inner == "cross" else "masked_attention" if masked else "attention"
    if "activations" in lasts and path.endswith(".ff"):
        return "ff"
    if not path:
        return "output"
    return "cell" if {"states", "start"} & lasts else "other"
