"""The residual stream: how long its vectors are on their way up, and what the output layer would say to them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import UserError
from glassformer.glass.formulas import FORMULAS
from glassformer.glass.parents import Parents
from glassformer.glass.trace import Choice, Trace

# What the stream is at its ends, what a sub-layer adds to it, the sum, and the sum (or what is read of it) normalised.
PLACES = r"{side}\.(?:input|memory|hidden|\d+\.(?:self|cross|ff)\.(?:output|residual|norm))"
SUB_LAYER = re.compile(r"(encoder|decoder)\.\d+\.(self|ff)\.output")


@dataclass(frozen=True)
class Place:
    """A tensor of the stream, T×D.

    norms       the length of each row, √Σx²
    normalises  the tensor that it is when normalised; None for one that is no result of normalisation
    """

    name: str
    norms: list[float]
    normalises: str | None


def sides_of(found: Trace) -> list[str]:
    """The sides of a model that have a residual stream: those of Transformer layers."""
    return list(dict.fromkeys(match[1] for name in found.tensors if (match := SUB_LAYER.fullmatch(name))))


def places_of(found: Trace, side: str, parents: Parents) -> list[Place]:
    """The stream of a side, in the order of the pass."""
    if side not in sides_of(found):
        raise UserError(f"This model has no residual stream of the {side}.", fix="take a Transformer")
    names = [name for name in found.tensors if re.fullmatch(PLACES.format(side=side), name)]
    return [Place(name, _lengths(found[name]), _normalises(name, parents)) for name in names]


def _lengths(x_TD: Tensor) -> list[float]:
    lengths: list[float] = x_TD.double().norm(dim=-1).tolist()
    return lengths


def _normalises(name: str, parents: Parents) -> str | None:
    recipe = parents.of(name)
    normalised = recipe is not None and (name.endswith(".norm") or recipe.formula is FORMULAS["norm"])
    return recipe.tensors["x"] if recipe is not None and normalised else None


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
        raise UserError("The output layer does not read this.", where=name, fix="take the stream after a decoder layer")
    if not 0 <= row < len(found.target):
        raise UserError(f"There is no row {row}.", fix=f"take one from 0 to {len(found.target) - 1}")
    logits_V = _output(model, found[name])[row]
    best = logits_V.softmax(dim=-1).topk(min(most, len(logits_V)))
    tokens = best.indices.tolist()
    return [Choice(*of) for of in zip(tokens, found.pieces(tokens), best.values.tolist(), strict=True)]


def lens_places(model: Any, found: Trace) -> list[str]:
    """The stream before the first decoder layer, and after each."""
    if "decoder" not in sides_of(found) or not hasattr(getattr(model, "output", None), "weight_VD"):
        raise UserError(
            "This model has no decoder layers whose stream an output layer reads.", fix="take a Transformer"
        )
    last = {name.split(".")[1]: name for name in found.tensors if re.match(r"decoder\.\d+\.", name)}
    return ["decoder.input", *last.values()]


@torch.inference_mode()
def _output(model: Any, x_TD: Tensor) -> Tensor:
    """The model's own last normalisation, where it has one, and its output layer. T×V."""
    x_1TD = x_TD[None].to(next(model.parameters()).device)
    hidden_1TD = x_1TD if model.decoder_norm is None else model.decoder_norm(x_1TD)
    logits_1TV: Tensor = model.output(hidden_1TD)
    return logits_1TV[0].cpu()
