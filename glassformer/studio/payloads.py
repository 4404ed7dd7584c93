"""What is sent: an outline as small JSON, weights for colour as bytes, exact numbers as float32 on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fastapi import Response
from torch import Tensor

from glassformer.errors import UserError
from glassformer.glass.masks import removable_masks
from glassformer.glass.trace import Trace
from glassformer.studio.asking import Seen
from glassformer.studio.figure import figure_of
from glassformer.text.tokenizer import EOS


def outline(number: str, seen: Seen) -> dict[str, Any]:
    """Everything about a trace but its numbers."""
    trace = seen.trace
    return {
        "id": number,
        "run": seen.opened.name,
        "task": seen.opened.settings.task,
        "family": seen.opened.settings.model.family,
        "text": seen.asked.text,
        "question": seen.asked.question,
        "output": seen.output,
        "mode": seen.mode,
        "source": trace.source,
        "target": trace.target,
        "predicted": trace.predicted,
        "written": trace.written if trace.target else [],
        "looks": looks(trace),
        "masks": removable_masks(trace),
        "tensors": {name: list(tensor.shape) for name, tensor in trace.tensors.items()},
        "figure": figure_of(seen),
    }


def looks(trace: Trace) -> dict[str, dict[str, Any]]:
    """Every kind of attention: how many layers and heads, and which side its rows and columns are of."""
    found: dict[str, dict[str, Any]] = {}
    for look in trace.attention_layers:
        of_kind = found.setdefault(look.kind, {"layers": 0, "heads": len(trace[look.name]), "names": []})
        of_kind["layers"] += 1
        of_kind["names"].append(look.name)
        of_kind["rows"] = "target" if look.kind in ("cross", "decoder") else "source"
        of_kind["columns"] = "target" if look.kind == "decoder" else "source"
    return found


def weights(trace: Trace, kind: str) -> Response:
    """Where every head of a kind looked, L×H×Q×K, a byte each: 255 is all of the attention. For colour only."""
    names = [look.name for look in trace.attention_layers if look.kind == kind]
    if not names:
        there = ", ".join(looks(trace)) or "none"
        raise UserError(f"This model has no {kind} attention.", hint=f"take a kind that it has: {there}")
    weights_LHQK = torch.stack([trace[name] for name in names])
    return binary((weights_LHQK * 255).round().to(torch.uint8))


def values(trace: Trace, name: str, at: Sequence[int]) -> Response:
    """The exact numbers of a tensor, float32 and little-endian: all of it, or one head, row or cell (`at`)."""
    return binary(part(tensor_of(trace, name), at).float())


def tensor_of(trace: Trace, name: str) -> Tensor:
    if name not in trace.tensors:
        raise UserError("This trace has no such tensor.", where=name, hint="take a name from its outline")
    return trace[name]


def part(tensor: Tensor, at: Sequence[int]) -> Tensor:
    """A tensor at its first indices."""
    if len(at) > tensor.dim() or any(not 0 <= i < size for i, size in zip(at, tensor.shape, strict=False)):
        raise UserError(
            f"There is nothing at {', '.join(map(str, at))}.", hint=f"its shape is {'×'.join(map(str, tensor.shape))}"
        )
    return tensor[tuple(at)]


def sureness(seen: Seen) -> list[dict[str, Any]]:
    """Return each token of the output and its log-probability, given the tokens before it."""
    if not seen.opened.spec.sequence_to_sequence:
        raise UserError("This run does not write a translation.", where=seen.opened.name, hint="choose a run that does")
    trace = seen.trace
    tokens = trace.written_tokens
    if seen.mode == "given":  # a target that was given ends where it ends, whatever the model would write next
        tokens = [*tokens[:-1], EOS]
    of_token_T = trace.log_probabilities()[range(len(tokens)), tokens].tolist()
    return [
        {"piece": piece, "log_probability": of_token}
        for piece, of_token in zip(trace.to_tokens(tokens), of_token_T, strict=True)
    ]


def binary(tensor: Tensor) -> Response:
    array = tensor.contiguous().numpy()
    if array.dtype == np.float32:
        array = array.astype("<f4", copy=False)
    shape = ",".join(map(str, array.shape))
    return Response(array.tobytes(), media_type="application/octet-stream", headers={"X-Shape": shape})


def recipe(seen: Seen, name: str) -> dict[str, Any]:
    """How a tensor comes from others: a formula, what it is given, and the same as a program in NumPy."""
    tensor_of(seen.trace, name)
    if seen.trace.is_input(name):
        return {"formula": seen.trace.graph[name].operation.formula, "parents": [], "weights": [], "numpy": None}
    made = seen.trace.provenance(name)
    return {
        "formula": made.operation.formula,
        "parents": list(made.tensors.values()),
        "weights": list(map(str, made.weights.values())),
        "numpy": seen.trace.numpy_code(name),
    }
