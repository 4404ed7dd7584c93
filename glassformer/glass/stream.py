"""The residual stream: how long its vectors are on their way up, and what the output layer would say to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import Message, UserError
from glassformer.glass.trace import Choice, Trace
from glassformer.nn.probe import Provenance
from glassformer.reference import attention, layers

ENDS = ("input", "memory", "hidden")  # names at the two ends of a side
IN_LAYER = ("output", "residual", "norm")  # what a sub-layer adds, the sum, and the normalized sum (or input)
SUB_LAYERS = (attention.attention_output, layers.feed_forward_output)


@dataclass(frozen=True)
class Place:
    """A tensor of the stream, T×D.

    Attributes:
        norms: the length of each row, √Σx².
        normalises: the tensor that it is the normalization of; None if it is not a result of normalization.
    """

    name: str
    norms: list[float]
    normalises: str | None


def sides_of(found: Trace) -> list[str]:
    """The sides of a model that have a residual stream: those of Transformer layers."""
    return list(dict.fromkeys(str(made.path[0]) for made in found.graph.values() if made.operation in SUB_LAYERS))


def places_of(found: Trace, side: str) -> list[Place]:
    """The stream of a side, in the order of the pass."""
    if side not in sides_of(found):
        raise UserError(
            Message("The {side} of this model has no residual stream.", side=side), hint="choose a Transformer"
        )
    names = [name for name, made in found.graph.items() if made.path[:1] == (side,) and _is_place(made)]
    return [Place(name, _lengths(found[name]), _normalises(found.provenance(name))) for name in names]


def _is_place(made: Provenance) -> bool:
    return made.name in (ENDS if len(made.path) == 1 else IN_LAYER)


def _lengths(x_TD: Tensor) -> list[float]:
    lengths: list[float] = x_TD.double().norm(dim=-1).tolist()
    return lengths


def _normalises(made: Provenance) -> str | None:
    normalized = made.operation is layers.normalize or made.name == "norm"  # without normalization, the same tensor
    return made.tensors["x"] if normalized else None


# ------------------------------------------------------------------------------------------ the logit lens


@dataclass(frozen=True)
class Said:
    """What the output layer says when it reads the stream after one layer already, for each token that was read."""

    name: str  # of the tensor that it reads
    pieces: list[str]  # the likeliest
    probabilities: list[float]  # of those
    log_probabilities: list[float]  # of what was written in the end
    ranks: list[int]  # of the same: 1 is the likeliest


def lens(model: Any, found: Trace) -> list[Said]:
    """Before the first decoder layer and after each; the last is what the model really says."""
    places, said = lens_places(model, found), []
    written_T = torch.tensor(found.written_tokens)
    for name in places:
        log_probability_TV = _output(model, found[name]).log_softmax(dim=-1)
        best_T = log_probability_TV.max(dim=-1)
        of_written_T = log_probability_TV.gather(1, written_T[:, None])
        ranks_T = 1 + (log_probability_TV > of_written_T).sum(dim=-1)
        pieces, chances = found.pieces(best_T.indices.tolist()), best_T.values.exp().tolist()
        said.append(Said(name, pieces, chances, of_written_T[:, 0].tolist(), ranks_T.tolist()))
    return said


def lens_choices(model: Any, found: Trace, name: str, row: int, most: int = 10) -> list[Choice]:
    """The likeliest tokens if the output layer read one row of the stream."""
    if name not in lens_places(model, found):
        raise UserError(
            "This tensor is not an input of the output layer.", where=name, hint="name the output of a decoder layer"
        )
    if not 0 <= row < len(found.target):
        raise UserError(
            Message("There is no row {row}.", row=row),
            hint=Message("choose a number from 0 to {last}", last=len(found.target) - 1),
        )
    logits_V = _output(model, found[name])[row]
    best = logits_V.softmax(dim=-1).topk(min(most, len(logits_V)))
    tokens = best.indices.tolist()
    return [Choice(*of) for of in zip(tokens, found.pieces(tokens), best.values.tolist(), strict=True)]


def lens_places(model: Any, found: Trace) -> list[str]:
    """The stream before the first decoder layer, and after each."""
    projections = (layers.output_projection, layers.biased_output_projection)
    if "decoder" not in sides_of(found) or found.graph["logits"].operation not in projections:
        raise UserError("This model has no decoder layers before an output layer.", hint="choose a Transformer")
    decoder = {name: made for name, made in found.graph.items() if made.path[:1] == ("decoder",)}
    last = {made.path[1]: name for name, made in decoder.items() if len(made.path) > 2 and made.name in IN_LAYER}
    return ["decoder.input", *last.values()]


@torch.inference_mode()
def _output(model: Any, x_TD: Tensor) -> Tensor:
    """The model's own last normalisation, where it has one, and its output layer. T×V."""
    x_1TD = x_TD[None].to(next(model.parameters()).device)
    hidden_1TD = x_1TD if model.decoder_norm is None else model.decoder_norm(x_1TD)
    logits_1TV: Tensor = model.output(hidden_1TD)
    return logits_1TV[0].cpu()
