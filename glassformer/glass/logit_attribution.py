"""Why a decoder prefers one token to another: the difference of two logits, split into the parts that it is a sum of.

    logit_A − logit_B = hidden·(w_A − w_B) + (b_A − b_B)

The hidden state comes from the residual stream, which is a sum: the embedding, the positional encoding and the outputs
of all sub-layers; the output of attention is a sum over heads and attended tokens. Layer normalization divides by the
standard deviation of the whole sum. With the measured deviation it is linear, so every part has a share in the
difference, and the shares add up to it. This is the direct effect of a part on the residual stream. Its effect through
later sub-layers is included in their shares. `head_ablations` measures the effect on the whole model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from glassformer.errors import Message, UserError
from glassformer.glass.effects import SilenceOnePerRow
from glassformer.glass.interventions import InterventionProbe
from glassformer.glass.residual_stream import streams_of
from glassformer.glass.trace import AttentionLayer, Trace
from glassformer.reference import attention, embeddings, layers
from glassformer.reference.operation import Array

SIDE = "decoder"


@dataclass(frozen=True)
class Share:
    """The share of one part of the model in the difference of two logits.

    Attributes:
        part: the tensor that it comes from, such as `decoder.0.cross.output`.
        kind: "embedding", "positions", "head", "ff", "bias" (of attention or normalization) or "other".
        layer: None outside the layers.
        head: of a head.
        attention: "decoder" (self-attention) or "cross", of a head.
        tokens: of a head, the share of each token that it attends to.
    """

    part: str
    kind: str
    value: float
    layer: int | None = None
    head: int | None = None
    attention: str | None = None
    tokens: tuple[float, ...] = ()


@dataclass(frozen=True)
class LogitDifference:
    """Two logits of one decoding step, and the shares that add up to their difference."""

    step: int
    logits: tuple[float, float]
    probabilities: tuple[float, float]
    shares: list[Share]

    @property
    def value(self) -> float:
        return self.logits[0] - self.logits[1]


def logit_difference(found: Trace, step: int, token: int, other: int) -> LogitDifference:
    """Split logit(token) − logit(other) at a decoding step."""
    _check_request(found, step, token, other)
    row = found["logits"][step].double()
    operands = found.operands("logits")
    direction = operands["weight"][token].astype(np.float64) - operands["weight"][other]
    shares = list(_walk(found, found.provenance("logits").tensors["x"], step, direction))
    if (bias := operands.get("bias")) is not None:
        shares.append(Share("logits", "bias", float(bias[token]) - float(bias[other])))
    probabilities = row.softmax(dim=0)
    return LogitDifference(
        step,
        (float(row[token]), float(row[other])),
        (float(probabilities[token]), float(probabilities[other])),
        shares,
    )


def _check_request(found: Trace, step: int, token: int, other: int) -> None:
    projections = (layers.output_projection, layers.biased_output_projection)
    if SIDE not in streams_of(found) or found.graph["logits"].operation not in projections:
        raise UserError("This model has no decoder layers before an output layer.", hint="choose a Transformer")
    steps, entries = found["logits"].shape
    for number, limit, message in (
        (step, steps, "There is no step {n}."),
        (token, entries, "There is no token {n}."),
        (other, entries, "There is no token {n}."),
    ):
        if not 0 <= number < limit:
            hint = Message("choose a number from 0 to {last}", last=limit - 1)
            raise UserError(Message(message, n=number), hint=hint)
    if token == other:
        raise UserError("The two tokens are the same.", hint="choose two different tokens")


def _walk(found: Trace, name: str, row: int, direction: Array) -> Iterator[Share]:
    """Go back through the residual stream. `direction`·(the tensor's row) is the share that is left to split."""
    made = found.provenance(name)
    operands = found.operands(name)
    layer = next((part for part in made.path if isinstance(part, int)), None)
    if made.operation is layers.same:
        yield from _walk(found, made.tensors["x"], row, direction)
    elif made.operation is layers.normalize:
        inner, constant = _through_norm(operands, row, direction)
        yield Share(name, "bias", constant, layer)
        yield from _walk(found, made.tensors["x"], row, inner)
    elif made.operation in (layers.residual, layers.add):
        yield from _walk(found, made.tensors["x"], row, direction)
        yield from _walk(found, made.tensors["y"], row, direction)
    elif made.operation is attention.attention_output:
        yield from _head_shares(found, name, row, direction)
    else:
        yield Share(name, _kind(found, name), float(found[name][row].double().numpy() @ direction), layer)


def _through_norm(operands: dict[str, Array], row: int, direction: Array) -> tuple[Array, float]:
    """Return the direction before a normalization with its measured statistics, and the share of its constants."""
    scaled, constant = direction * operands["weight"], float(operands["bias"] @ direction)
    if operands["mean"].ndim == 1:  # batch normalization: constants per dimension
        inner = scaled / operands["deviation"]
        return inner, constant - float(operands["mean"] @ inner)
    return (scaled - scaled.mean()) / operands["deviation"][row], constant


def _kind(found: Trace, name: str) -> str:
    operation = found.graph[name].operation
    if operation is layers.feed_forward_output:
        return "ff"
    if operation in (embeddings.sinusoidal_positions, embeddings.learned_positions):
        return "positions"
    return "embedding" if operation in (embeddings.token_embedding, layers.scale_embedding) else "other"


def _head_shares(found: Trace, output: str, row: int, direction: Array) -> Iterator[Share]:
    """Σ_heads Σ_tokens weight·(value·W_O)·direction, and the bias of W_O."""
    made, operands = found.provenance(output), found.operands(output)
    head_output = made.tensors["head_output"]
    inner = found.operands(head_output)
    layer = next(part for part in made.path if isinstance(part, int))
    kind = "cross" if "cross" in made.path else SIDE
    into_heads = direction @ operands["weight"]  # Concat(heads)·W_O·direction = heads·into_heads
    for head, into in enumerate(into_heads.reshape(len(found[head_output]), -1)):
        tokens = inner["weights"][head, row].astype(np.float64) * (inner["value"][head] @ into)
        yield Share(head_output, "head", float(tokens.sum()), layer, head, kind, tuple(tokens.tolist()))
    yield Share(output, "bias", float(operands["bias"] @ direction), layer)


# ------------------------------------------------------------------------------------------ ablation


@dataclass(frozen=True)
class HeadAblations:
    """The change in the difference of two logits when a head is ablated, layers × heads, for one kind of attention."""

    kind: str
    change: list[list[float]]


@torch.inference_mode()
def head_ablations(model: Any, found: Trace, step: int, token: int, other: int) -> list[HeadAblations]:
    """Silence each head in turn, one pass per kind of attention, and measure logit(token) − logit(other)."""
    _check_request(found, step, token, other)
    kinds = dict.fromkeys(layer.kind for layer in found.attention_layers)
    return [
        HeadAblations(kind, _ablate(model, found, found.layers_of_kind(kind), step, token, other)) for kind in kinds
    ]


def _ablate(
    model: Any, found: Trace, of_kind: Sequence[AttentionLayer], step: int, token: int, other: int
) -> list[list[float]]:
    heads = [len(found[layer.name]) for layer in of_kind]
    probe = InterventionProbe(
        [
            SilenceOnePerRow(".".join(map(str, found.graph[layer.name].path)), 1 + sum(heads[:i]))
            for i, layer in enumerate(of_kind)
        ]
    )
    device = next(model.parameters()).device
    inputs = [found[f"{side}.tokens"] for side in ("encoder", SIDE) if f"{side}.tokens" in found.tensors]
    rows = [tokens[None].expand(1 + sum(heads), -1).to(device) for tokens in inputs]
    logits_BV = model(*rows, probe)[:, step].cpu().double()
    difference_B = logits_BV[:, token] - logits_BV[:, other]
    change = (difference_B[1:] - difference_B[0]).split(heads)
    return [layer.tolist() for layer in change]
