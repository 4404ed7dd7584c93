"""Masks taken away: what attention then reaches, and what that does to the output that is asked for.

A sentence alone needs no padding, so it is padded here as it would be beside a longer one. Three masks hide something:

    padding     from self-attention, on both sides: tokens that only fill up the batch
    look_ahead  from the decoder's self-attention: tokens that come later
    cross       from the decoder's attention to the source: the padding of the source
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import UserError
from glassformer.glass.interventions import Change, Making
from glassformer.glass.trace import Trace, trace

MASKS = ("padding", "look_ahead", "cross")
MOST_PADDING = 8
KEPT = ("mask", "weights", "logits")  # of a pass under other masks: what is looked at


@dataclass(frozen=True)
class SetMask(Change):
    """The mask of an attention hides columns from `real` on (None: no column), and what comes later if `look_ahead`."""

    at: str
    real: int | None = None
    look_ahead: bool = False

    def names(self) -> str:
        return f"{self.at}.mask"

    def apply(self, name: str, tensor: Tensor, row: int, seen: dict[str, Tensor]) -> Tensor:
        columns = tensor.shape[-1]
        # Self-attention has as many rows as columns; for the other, one row stands for all.
        mask_QK = tensor.new_zeros(1 if self.at.endswith("cross") else columns, columns)
        if self.look_ahead:
            mask_QK += torch.full_like(mask_QK, float("-inf")).triu(1)
        if self.real is not None:
            mask_QK[:, self.real :] = float("-inf")
        return mask_QK


@dataclass(frozen=True)
class Masked:
    """A padded pass under some of the masks, beside one under the model's own.

    trace   masks and weights of the first; its sides end with padding
    before  log-probability of each token of the output under the model's own masks
    after   the same under the chosen ones
    apart   the largest difference that padding makes to a logit under the model's own masks: rounding alone
    """

    trace: Trace
    written: list[str]
    before: list[float]
    after: list[float]
    apart: float


def under_masks(model: Any, found: Trace, masks: Collection[str], *, padding: int, eos: int) -> Masked:
    """The sentence and output of a trace again, with so many tokens of padding, under some of `MASKS`."""
    _refuse_unfit(model, found, masks, padding)
    source, read = found["encoder.tokens"].tolist(), found["decoder.tokens"].tolist()
    written = [*read[1:], eos]
    filling = [model.pad] * padding
    making = Making(
        [
            SetMask("encoder.*.self", len(source) if "padding" in masks else None),
            SetMask("decoder.*.self", len(read) if "padding" in masks else None, "look_ahead" in masks),
            SetMask("decoder.*.cross", len(source) if "cross" in masks else None),
        ]
    )
    own = trace(model, found.pieces, [*source, *filling], [*read, *filling])
    other = trace(model, found.pieces, [*source, *filling], [*read, *filling], watch=making)
    kept = {name: tensor for name, tensor in other.tensors.items() if name.rpartition(".")[2] in KEPT}
    return Masked(
        Trace(other.source, other.target, other.predicted, kept, pieces=found.pieces),
        found.pieces(written),
        _of_tokens(own, written),
        _of_tokens(other, written),
        float((own["logits"][: len(read)] - found["logits"]).abs().max()),
    )


def _refuse_unfit(model: Any, found: Trace, masks: Collection[str], padding: int) -> None:
    if not {"decoder.0.self.weights", "decoder.0.cross.weights"} <= found.tensors.keys():
        raise UserError("This model has no such masks to take away.", fix="take a Transformer that translates")
    if unknown := sorted(set(masks) - set(MASKS)):
        raise UserError(f"There is no mask called {unknown[0]}.", fix=f"take some of {', '.join(MASKS)}")
    if not 1 <= padding <= MOST_PADDING:
        raise UserError(f"There cannot be {padding} tokens of padding.", fix=f"take 1 to {MOST_PADDING}")
    longest = max(len(found.source), len(found.target)) + padding
    if model.longest is not None and longest > model.longest:
        raise UserError(
            f"With its padding this is {longest} tokens long; the model has learnt {model.longest} positions.",
            fix="take a shorter sentence",
        )


def _of_tokens(found: Trace, written: Sequence[int]) -> list[float]:
    """The log-probability of each, at its row; rows of padding are nobody's."""
    of_token: list[float] = found.log_probabilities()[range(len(written)), list(written)].tolist()
    return of_token
