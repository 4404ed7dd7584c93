"""The architecture as blocks and arrows, read from a trace, so that figure and code cannot disagree.

Tensors of one scope are a block (`encoder.0.self`), except that Add & Norm around a sub-layer and the two ends of a
side are blocks of their own. An arrow goes from one block to another where a tensor of the second was computed from a
tensor of the first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from glassformer.glass.trace import Trace
from glassformer.nn.probe import Provenance
from glassformer.reference import attention, layers, recurrent
from glassformer.reference.operation import LIKE
from glassformer.studio.asking import Seen

SUB_LAYERS = ("self", "cross", "ff")
ADD_NORM = ("residual", "mean", "deviation", "norm")
STATISTICS = ("mean", "deviation")
# The blocks at the ends of a side, by the names of their tensors.
ENDS = {
    "embedding": ("tokens", "vectors", "embedding", "segments", "segment_vectors", "pixels", "image"),
    "positions": ("positions",),
    "input": ("sum", "input", "window"),
    "end": ("memory", "hidden"),
}
PARTS = {name: part for part, names in ENDS.items() for name in names}
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
    """Return blocks in the order of the pass, and arrows between them.

    They are the same for all sentences, so they are kept.
    """
    names = tuple(seen.trace.tensors)
    figures = seen.opened.figures
    if names not in figures:
        blocks = blocks_of(seen.trace)
        figures[names] = {"blocks": [asdict(block) for block in blocks], "arrows": arrows_of(blocks, seen.trace)}
    return figures[names]


def blocks_of(trace: Trace) -> list[Block]:
    """The tensors of a trace in blocks, each where its last tensor is computed."""
    order = {name: place for place, name in enumerate(trace.tensors)}
    users = _users_of_statistics(trace)
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name in trace.tensors:
        made = trace.graph[name]
        part = _part(trace.graph[users.get(name, name)])
        if part == "add_norm":  # a sub-layer may have some of it before, and some after
            part = "after" if (*made.path, "") in groups else "before"
        groups.setdefault((*made.path, part), []).append(name)
    ordered = sorted(groups.items(), key=lambda group: order[group[1][-1]])
    return [_block(path, part, names, trace) for (*path, part), names in ordered]


def arrows_of(blocks: list[Block], trace: Trace) -> list[tuple[str, str]]:
    """Which block reads from which, once each."""
    home = {name: block.id for block in blocks for name in block.tensors}
    arrows: dict[tuple[str, str], None] = {}
    for name, block in home.items():
        for role, operand in trace.provenance(name).tensors.items():
            if role != LIKE and home[operand] != block:
                arrows[home[operand], block] = None
    return list(arrows)


def _users_of_statistics(trace: Trace) -> dict[str, str]:
    """For each mean and deviation, the tensor that is normalized by it."""
    return {
        trace.graph[name].tensors[role]: name
        for name in trace.tensors
        if trace.graph[name].operation is layers.normalize
        for role in STATISTICS
    }


def _part(made: Provenance) -> str:
    """What a tensor is to its sub-layer or side."""
    if len(made.path) == 1 and made.path[0] in SIDES:
        return PARTS.get(made.name, "end")
    return "add_norm" if made.path[2:3] and made.path[2] in SUB_LAYERS and made.name in ADD_NORM else ""


def _block(path: list[str | int], part: str, names: list[str], trace: Trace) -> Block:
    layer = path[1] if len(path) > 1 and isinstance(path[1], int) else None
    dotted = ".".join(map(str, path))
    kind = _kind(path, part, [trace.graph[name] for name in names])
    return Block(f"{dotted}:{part}".rstrip(":") or "output", str(path[0]) if path else "output", layer, kind, names)


def _kind(path: list[str | int], part: str, tensors: list[Provenance]) -> str:
    names, operations = {made.name for made in tensors}, [made.operation for made in tensors]
    if part in ("before", "after"):
        added, normalized = "residual" in names, "norm" in names
        return "add_norm" if added and normalized else "add" if added else "norm"
    if part == "embedding" and "image" in names:
        return "patches"
    if part:
        return part
    if attention.attention_weights in operations:
        return "cross" if "cross" in path else "masked_attention" if "mask" in names else "attention"
    if layers.feed_forward_output in operations:
        return "ff"
    if not path:
        return "output"
    return "cell" if recurrent.previous in operations or "start" in names or "hidden_state" in names else "other"
