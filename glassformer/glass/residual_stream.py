"""The residual stream: the norms of its vectors after each sub-layer, and the logit lens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import Message, UserError
from glassformer.glass.trace import NextToken, Trace
from glassformer.nn.probe import Provenance
from glassformer.reference import attention, layers

STACK_TENSORS = ("input", "memory", "hidden")  # names at the two ends of a stack of layers
LAYER_TENSORS = ("output", "residual", "norm")  # sub-layer output, the sum, and the normalized sum (or input)
SUB_LAYERS = (attention.attention_output, layers.feed_forward_output)


@dataclass(frozen=True)
class StreamTensor:
    """A tensor of the residual stream, T×D.

    Attributes:
        norms: the L2 norm of each row.
        normalizes: the tensor that it normalizes; None if it is not the result of normalization.
    """

    name: str
    norms: list[float]
    normalizes: str | None


def streams_of(found: Trace) -> list[str]:
    """Return the stacks of Transformer layers, "encoder" and "decoder", which have a residual stream."""
    return list(dict.fromkeys(str(made.path[0]) for made in found.graph.values() if made.operation in SUB_LAYERS))


def stream_tensors(found: Trace, side: str) -> list[StreamTensor]:
    """Return the residual stream of a stack, in the order of the pass."""
    if side not in streams_of(found):
        raise UserError(
            Message("The {side} of this model has no residual stream.", side=side), hint="choose a Transformer"
        )
    names = [name for name, made in found.graph.items() if made.path[:1] == (side,) and _is_in_stream(made)]
    return [
        StreamTensor(name, found[name].double().norm(dim=-1).tolist(), _normalizes(found.provenance(name)))
        for name in names
    ]


def _is_in_stream(made: Provenance) -> bool:
    return made.name in (STACK_TENSORS if len(made.path) == 1 else LAYER_TENSORS)


def _normalizes(made: Provenance) -> str | None:
    normalized = made.operation is layers.normalize or made.name == "norm"  # the same tensor without normalization
    return made.tensors["x"] if normalized else None


# ------------------------------------------------------------------------------------------ logit lens


@dataclass(frozen=True)
class LensPrediction:
    """The prediction of the output layer from the residual stream after one layer, for each token that was read.

    Attributes:
        name: the tensor that the output layer reads.
        pieces: the most probable tokens.
        probabilities: their probabilities.
        log_probabilities: log-probabilities of the tokens that were written in the end.
        ranks: ranks of the same tokens; 1 is the most probable.
    """

    name: str
    pieces: list[str]
    probabilities: list[float]
    log_probabilities: list[float]
    ranks: list[int]


def logit_lens(model: Any, found: Trace) -> list[LensPrediction]:
    """Return the predictions before the first decoder layer and after each; the last is the model's output."""
    predictions, names = [], lens_tensors(found)
    written_T = torch.tensor(found.written_tokens)
    for name in names:
        log_probability_TV = _project(model, found[name]).log_softmax(dim=-1)
        best_T = log_probability_TV.max(dim=-1)
        of_written_T1 = log_probability_TV.gather(1, written_T[:, None])
        ranks_T = 1 + (log_probability_TV > of_written_T1).sum(dim=-1)
        pieces, probabilities = found.to_tokens(best_T.indices.tolist()), best_T.values.exp().tolist()
        predictions.append(LensPrediction(name, pieces, probabilities, of_written_T1[:, 0].tolist(), ranks_T.tolist()))
    return predictions


def lens_next_tokens(model: Any, found: Trace, name: str, row: int, count: int = 10) -> list[NextToken]:
    """Return the most probable tokens if the output layer reads one row of the residual stream."""
    if name not in lens_tensors(found):
        raise UserError(
            "This tensor is not an input of the output layer.", where=name, hint="name the output of a decoder layer"
        )
    if not 0 <= row < len(found.target):
        raise UserError(
            Message("There is no row {row}.", row=row),
            hint=Message("choose a number from 0 to {last}", last=len(found.target) - 1),
        )
    logits_V = _project(model, found[name])[row]
    best = logits_V.softmax(dim=-1).topk(min(count, len(logits_V)))
    tokens = best.indices.tolist()
    return [NextToken(*of) for of in zip(tokens, found.to_tokens(tokens), best.values.tolist(), strict=True)]


def lens_tensors(found: Trace) -> list[str]:
    """Return the names of the residual stream before the first decoder layer and after each."""
    projections = (layers.output_projection, layers.biased_output_projection)
    if "decoder" not in streams_of(found) or found.graph["logits"].operation not in projections:
        raise UserError("This model has no decoder layers before an output layer.", hint="choose a Transformer")
    decoder = {name: made for name, made in found.graph.items() if made.path[:1] == ("decoder",)}
    last = {made.path[1]: name for name, made in decoder.items() if len(made.path) > 2 and made.name in LAYER_TENSORS}
    return ["decoder.input", *last.values()]


@torch.inference_mode()
def _project(model: Any, x_TD: Tensor) -> Tensor:
    """Apply the model's final normalization, if it has one, and its output layer. T×V."""
    x_1TD = x_TD[None].to(next(model.parameters()).device)
    hidden_1TD = x_1TD if model.decoder_norm is None else model.decoder_norm(x_1TD)
    logits_1TV: Tensor = model.output(hidden_1TD)
    return logits_1TV[0].cpu()
