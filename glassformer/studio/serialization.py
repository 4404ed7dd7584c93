"""The formats that are sent: outlines and errors as JSON, weights for colours as uint8, exact values as float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fastapi import Response
from fastapi.responses import JSONResponse
from torch import Tensor

from glassformer.errors import Message, UserError, as_message
from glassformer.glass.image_trace import ImageTrace
from glassformer.glass.mask_removal import removable_masks
from glassformer.glass.trace import Trace
from glassformer.glass.trace_files import to_lists
from glassformer.reference.layers import ACTIVATIONS
from glassformer.reference.operation import Array
from glassformer.studio.figure import figure_of
from glassformer.studio.model_store import traits_json
from glassformer.studio.tracing import TraceResult
from glassformer.text.tokenizer import EOS

OVER_VOCABULARY = ("logits", "probabilities")  # tensors with one column per token of the vocabulary, or per label
MOST_WEIGHTS = 2**20  # numbers of a weight matrix that is sent


def error_response(status: int, message: str, *, where: str = "", hint: str = "") -> JSONResponse:
    """Return an error in English and, for translation, the template and values of its message and hint."""
    templates = {"what": as_message(message).to_json(), "hint": as_message(hint).to_json()}
    return JSONResponse({"what": message, "where": where, "hint": hint, "messages": templates}, status_code=status)


def outline(trace_id: str, result: TraceResult) -> dict[str, Any]:
    """Return everything about a trace except the values of its tensors."""
    trace = result.trace
    return {
        "id": trace_id,
        "run": result.opened.name,
        "task": result.opened.settings.task,
        "traits": traits_json(result.opened.spec),
        "family": result.opened.settings.model.family,
        "text": result.asked.text,
        "question": result.asked.question,
        "output": result.output,
        "mode": result.mode,
        "source": trace.source,
        "target": trace.target,
        "predicted": trace.predicted,
        "written": trace.written if trace.target else [],
        "looks": attention_kinds(trace),
        "masks": removable_masks(trace),
        "grid": trace.grid if isinstance(trace, ImageTrace) else None,
        "tensors": {name: list(tensor.shape) for name, tensor in trace.tensors.items()},
        "figure": figure_of(result),
    }


def attention_kinds(trace: Trace) -> dict[str, dict[str, Any]]:
    """Return, per kind of attention, the number of layers and heads, and the side of its rows and columns."""
    found: dict[str, dict[str, Any]] = {}
    for look in trace.attention_layers:
        of_kind = found.setdefault(look.kind, {"layers": 0, "heads": len(trace[look.name]), "names": []})
        of_kind["layers"] += 1
        of_kind["names"].append(look.name)
        of_kind["rows"] = "target" if look.kind in ("cross", "decoder") else "source"
        of_kind["columns"] = "target" if look.kind == "decoder" else "source"
    return found


def attention_bytes(trace: Trace, kind: str) -> Response:
    """Return the attention weights of all layers and heads of a kind (L×H×Q×K) as uint8 for colours: 255 is 1."""
    names = [look.name for look in trace.attention_layers if look.kind == kind]
    if not names:
        kinds = ", ".join(attention_kinds(trace)) or "–"
        hint = Message("choose one of {names}", names=kinds)
        raise UserError(Message("This model has no {kind} attention.", kind=kind), hint=hint)
    weights_LHQK = torch.stack([trace[name] for name in names])
    return binary((weights_LHQK * 255).round().to(torch.uint8))


def values(trace: Trace, name: str, at: Sequence[int]) -> Response:
    """Return the values of a tensor, or of one head, row or entry (`at`), as little-endian float32."""
    return binary(index_tensor(find_tensor(trace, name), at).float())


def find_tensor(trace: Trace, name: str) -> Tensor:
    if name not in trace.tensors:
        raise UserError("This trace has no such tensor.", where=name, hint="use a name from the outline of the trace")
    return trace[name]


def index_tensor(tensor: Tensor, at: Sequence[int]) -> Tensor:
    """Index the first dimensions of a tensor."""
    if len(at) > tensor.dim() or any(not 0 <= i < size for i, size in zip(at, tensor.shape, strict=False)):
        raise UserError(
            Message("The index {at} is out of range.", at=", ".join(map(str, at))),
            hint=Message("the shape is {shape}", shape="×".join(map(str, tensor.shape))),
        )
    return tensor[tuple(at)]


def output_log_probabilities(result: TraceResult) -> list[dict[str, Any]]:
    """Return each token of the output and its log-probability given the tokens before it."""
    result.opened.require_translation()
    trace = result.trace
    tokens = trace.written_tokens
    if result.mode == "given":  # a given target ends with <eos>, whatever the model would predict there
        tokens = [*tokens[:-1], EOS]
    of_token_T = trace.log_probabilities()[range(len(tokens)), tokens].tolist()
    return [
        {"piece": piece, "log_probability": of_token}
        for piece, of_token in zip(trace.to_tokens(tokens), of_token_T, strict=True)
    ]


def binary(tensor: Tensor) -> Response:
    """Return the values of a tensor as bytes, with its shape in the header X-Shape."""
    array = tensor.contiguous().numpy()
    if array.dtype == np.float32:
        array = array.astype("<f4", copy=False)
    shape = ",".join(map(str, array.shape))
    return Response(array.tobytes(), media_type="application/octet-stream", headers={"X-Shape": shape})


def computation(result: TraceResult, name: str) -> dict[str, Any]:
    """Return how a tensor was computed: its formula, operands, weights, and the computation as NumPy code.

    `activation` is the activation function that follows the linear layer of the computation, if there is one.
    """
    find_tensor(result.trace, name)
    if result.trace.is_input(name):
        formula = result.trace.graph[name].operation.formula
        return {"formula": formula, "activation": None, "parents": [], "weights": [], "numpy": None}
    made, operands = result.trace.provenance(name), result.trace.operands(name)
    return {
        "formula": made.operation.formula,
        "activation": next((name for name, one in ACTIVATIONS.items() if one is made.operation), None),
        "parents": list(made.tensors.values()),
        "weights": [
            {
                "role": role,
                "name": str(weight),
                "symbol": made.operation.symbols.get(role),
                "shape": _as_written(role, operands[role]).shape,
            }
            for role, weight in made.weights.items()
        ],
        "numpy": result.trace.numpy_code(name),
    }


def is_transposed(role: str) -> bool:
    """Return whether an operand is stored as PyTorch stores the weight of a linear layer: the transpose of W in x·W."""
    return role == "weight"


def _as_written(role: str, values: Array) -> Array:
    return values.T if is_transposed(role) else values


def weight_values(trace: Trace, name: str, role: str) -> Response:
    """Return a weight that a tensor is computed from, as the W of its formula x·W, as little-endian float32."""
    find_tensor(trace, name)
    if role not in trace.graph[name].weights:
        hint = "use the name of a weight in the formula of this tensor"
        raise UserError("This tensor is not computed from such a weight.", where=role, hint=hint)
    values = _as_written(role, trace.operands(name)[role])
    if values.size > MOST_WEIGHTS:
        message = Message("The matrix is too large to be shown: {n} values.", n=f"{values.size:,}")
        raise UserError(message, where=role, hint=Message("at most {n} values are shown", n=f"{MOST_WEIGHTS:,}"))
    return binary(torch.tensor(values))


def probable_columns(trace: Trace, name: str, most: int) -> dict[str, Any]:
    """Return the columns of logits or probabilities that are among the `most` largest of any row, with their tokens."""
    if name not in OVER_VOCABULARY:
        hint = Message("choose one of {names}", names=", ".join(OVER_VOCABULARY))
        raise UserError("The columns of this tensor are not tokens.", where=name, hint=hint)
    values_TV = torch.atleast_2d(find_tensor(trace, name))
    best_TC = values_TV.topk(min(most, values_TV.shape[1]), dim=1).indices
    columns = list(dict.fromkeys(best_TC.flatten().tolist()))
    return {"columns": columns, "tokens": trace.to_tokens(columns), "values": to_lists(values_TV[:, columns])}
