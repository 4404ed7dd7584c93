"""The architecture as blocks and arrows, read from a trace, so that figure and code cannot disagree.

The tensors of one scope (`encoder.0.self`) form a block. Add & Norm, the embeddings and the final output of a side are
separate blocks, as are the softmax and the argmax after the logits. An arrow goes from one block to another where a
tensor of the second was computed from a tensor of the first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from glassformer.glass.prediction import PREDICTION
from glassformer.glass.recurrent_layers import CELL_OF
from glassformer.glass.trace import Trace
from glassformer.nn.probe import Provenance
from glassformer.reference import attention, layers
from glassformer.reference.operation import LIKE
from glassformer.studio.tracing import TraceResult

SUB_LAYERS = ("self", "cross", "ff")
ADD_NORM = ("residual", "mean", "deviation", "norm")
STATISTICS = ("mean", "deviation")
# The blocks at the ends of a side, by the names of their tensors.
ENDS = {
    "embedding": ("tokens", "vectors", "embedding", "segments", "segment_vectors", "pixels", "image"),
    "positions": ("positions",),
    "rotation": ("rotation",),
    "input": ("sum", "input", "window"),
    "end": ("memory", "hidden"),
}
PARTS = {name: part for part, names in ENDS.items() for name in names}
SIDES = ("encoder", "decoder")


@dataclass(frozen=True)
class Block:
    """Tensors drawn as one block. `layer` is None for embeddings and final outputs."""

    id: str
    side: str
    layer: int | None
    kind: str
    tensors: list[str]


def figure_of(result: TraceResult) -> dict[str, Any]:
    """Return the blocks in the order of computation and the arrows between them; cached per set of tensors."""
    names = tuple(result.trace.tensors)
    figures = result.opened.figures
    if names not in figures:
        blocks = blocks_of(result.trace)
        arrows = [(*ends, tensor) for ends, tensor in arrows_of(blocks, result.trace).items()]
        figures[names] = {"blocks": [asdict(block) for block in blocks], "arrows": arrows}
    return figures[names]


def blocks_of(trace: Trace) -> list[Block]:
    """Group the tensors of a trace into blocks, in the order in which their last tensors are computed."""
    order = {name: float(place) for place, name in enumerate(trace.tensors)}
    users = _users_of_statistics(trace)
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name in trace.tensors:
        made = trace.graph[name]
        part = _part(trace.graph[users.get(name, name)])
        if part == "add_norm":  # pre-norm normalizes before the sub-layer, post-norm after it
            # Keys and values of the encoder output are computed before the norm of a pre-norm decoder.
            computed = groups.get((*made.path, ""), [])
            part = "after" if any(trace.graph[one].name == "output" for one in computed) else "before"
        groups.setdefault((*made.path, part), []).append(name)
    for (*path, part), names in groups.items():
        if part == "rotation":  # drawn where other models add positions: below the input of the first layer
            order[names[-1]] = order[groups[(*path, "input")][0]] - 0.5
    ordered = sorted(groups.items(), key=lambda group: order[group[1][-1]])
    return [_block(path, part, names, trace) for (*path, part), names in ordered]


def arrows_of(blocks: list[Block], trace: Trace) -> dict[tuple[str, str], str]:
    """Return the pairs (from, to) of blocks where the second reads the first, with the tensor that it reads."""
    home = {name: block.id for block in blocks for name in block.tensors}
    arrows: dict[tuple[str, str], str] = {}
    for name, block in home.items():
        for role, operand in trace.provenance(name).tensors.items():
            if role != LIKE and home[operand] != block:
                read = _origin(trace, operand)
                arrows.setdefault((home[read], block), read)
    return arrows


def _origin(trace: Trace, name: str) -> str:
    """Return the tensor that the input of a layer is a copy of: both directions of a layer read the same input."""
    made = trace.graph[name]
    copied = made.name == "input" and len(made.path) > 1 and made.operation is layers.same
    return trace.provenance(name).tensors["x"] if copied else name


def _users_of_statistics(trace: Trace) -> dict[str, str]:
    """Return, for each mean and deviation, the tensor normalized with it."""
    return {
        trace.graph[name].tensors[role]: name
        for name in trace.tensors
        if trace.graph[name].operation is layers.normalize
        for role in STATISTICS
    }


def _part(made: Provenance) -> str:
    """Return which part of its sub-layer or side a tensor belongs to."""
    if len(made.path) == 1 and made.path[0] in SIDES:
        return PARTS.get(made.name, "end")
    if made.operation is layers.reverse or (not made.path and made.name in PREDICTION):
        return made.name
    return "add_norm" if made.path[2:3] and made.path[2] in SUB_LAYERS and made.name in ADD_NORM else ""


def _block(path: list[str | int], part: str, names: list[str], trace: Trace) -> Block:
    layer = path[1] if len(path) > 1 and isinstance(path[1], int) else None
    dotted = ".".join(map(str, path))
    kind = _kind(path, part, [trace.graph[name] for name in names])
    return Block(f"{dotted}:{part}".strip(":") or "output", str(path[0]) if path else "output", layer, kind, names)


def _kind(path: list[str | int], part: str, tensors: list[Provenance]) -> str:
    names, operations = {made.name for made in tensors}, [made.operation for made in tensors]
    if layers.reverse in operations:
        return "reverse"
    if part in ("before", "after"):
        added, normalized = "residual" in names, "norm" in names
        alone = "batch_norm" if layers.running_mean in operations else "norm"
        return "add_norm" if added and normalized else "add" if added else alone
    if part == "embedding" and "image" in names:
        return "patches"
    if part == "end":
        return f"{path[0]}_output"
    if part:
        return part
    if attention.attention_weights in operations:
        return "cross" if "cross" in path else "masked_attention" if "mask" in names else "attention"
    if layers.feed_forward_output in operations:
        return "ff"
    if not path:
        return "output"
    if path == ["prediction"]:
        return "prediction_head"
    other = "concatenation" if "hidden_state" in names else "other"
    return next((CELL_OF[id(operation)] for operation in operations if id(operation) in CELL_OF), other)
