"""Masks taken away: what attention then reaches, and what that does to the output that is asked for.

A sentence alone needs no padding, so it is padded here as it would be beside a longer one. Three masks hide something:

    padding     from self-attention, on both sides: tokens that only fill up the batch
    look_ahead  from the decoder's self-attention: tokens that come later
    cross       from the decoder's attention to the source: the padding of the source

A language model has the first two, an encoder alone the first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import Message, UserError
from glassformer.glass.interventions import Change, Making
from glassformer.glass.questions import QuestionTrace
from glassformer.glass.trace import Trace, Watch, trace, trace_alone

MASKS = ("padding", "look_ahead", "cross")
SIDES = ("encoder", "decoder")
PADDING = "<pad>"
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


def masks_of(found: Trace) -> tuple[str, ...]:
    """The masks that can be taken away from what was traced; none where nothing is hidden or nothing is said."""
    has = found.tensors.__contains__
    if "logits" not in found.tensors or isinstance(found, QuestionTrace):  # which says places, one against the other
        return ()
    if has("decoder.0.self.weights"):
        return MASKS if has("decoder.0.cross.weights") else ("padding", "look_ahead") if not found.source else ()
    return ("padding",) if has("encoder.0.self.weights") and has("encoder.tokens") else ()


def under_masks(model: Any, found: Trace, masks: Collection[str], *, padding: int, eos: int) -> Masked:
    """The sentence and output of a trace again, with so many tokens of padding, under some of `masks_of(found)`.

    The output of a translation is what was read, with `<eos>`; of a language model the text that it read and what it
    thinks comes next; of an encoder what it says by itself.
    """
    _refuse_unfit(model.max_positions, found, masks, padding)
    sides = {side: found[f"{side}.tokens"].tolist() for side in SIDES if f"{side}.tokens" in found.tensors}
    filling = [model.pad] * padding
    source, read = (len(sides.get(side, [])) for side in SIDES)
    making = Making(
        [
            SetMask("encoder.*.self", source if "padding" in masks else None),
            SetMask("decoder.*.self", read if "padding" in masks else None, "look_ahead" in masks),
            SetMask("decoder.*.cross", source if "cross" in masks else None),
        ]
    )
    rows = [[*tokens, *filling] for tokens in sides.values()]
    own, other = (_traced(model, found, rows, padding, watch) for watch in (Making([]), making))
    written = _written(found, sides.get("decoder"), eos)
    kept = {name: tensor for name, tensor in other.tensors.items() if other.graph[name].name in KEPT}
    real = found["logits"].shape[0]
    return Masked(
        replace(other, tensors=kept, pieces=found.pieces),
        found.pieces(written),
        _of_tokens(own, written),
        _of_tokens(other, written),
        float((own["logits"][:real] - found["logits"]).abs().max()),
    )


def _traced(model: Any, found: Trace, rows: list[list[int]], padding: int, watch: Watch) -> Trace:
    """A pass over padded rows."""
    if len(rows) == 2:
        return trace(model, found.pieces, *rows, watch=watch)
    named = [*(found.source or found.target), *[PADDING] * padding]
    return trace_alone(model, lambda _: named, *rows, answers=found.pieces, watch=watch)


def _written(found: Trace, read: list[int] | None, eos: int) -> list[int]:
    """The output whose probability is compared."""
    logits = found["logits"] if found["logits"].dim() > 1 else found["logits"][None]
    if read is None:
        said: list[int] = logits.argmax(dim=-1).tolist()
        return said
    given = bool(found.source) and found.last_token is None  # a given target ends with `<eos>`
    return [*read[1:], eos] if given else found.written_tokens


def _refuse_unfit(most: int | None, found: Trace, masks: Collection[str], padding: int) -> None:
    if not (possible := masks_of(found)):
        raise UserError("This model has no masks to remove.", hint="choose a Transformer trained for translation")
    if unknown := sorted(set(masks) - set(possible)):
        raise UserError(
            Message("There is no mask named {name}.", name=unknown[0]),
            hint=Message("choose from {names}", names=", ".join(possible)),
        )
    if not 1 <= padding <= MOST_PADDING:
        raise UserError(
            Message("The number of padding tokens cannot be {n}.", n=padding),
            hint=Message("choose a number from 1 to {last}", last=MOST_PADDING),
        )
    longest = max(len(found.source), len(found.target)) + padding
    if most is not None and longest > most:
        raise UserError(
            Message(
                "With padding the sentence has {n} tokens; the model has {most} learned positions.",
                n=longest,
                most=most,
            ),
            hint="use a shorter sentence",
        )


def _of_tokens(found: Trace, written: Sequence[int]) -> list[float]:
    """The log-probability of each, at its row; rows of padding are nobody's."""
    of_token: list[float] = found.log_probabilities()[range(len(written)), list(written)].tolist()
    return of_token
