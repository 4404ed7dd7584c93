"""Removal of attention masks: which weights become positive, and the effect on the output.

A single sentence needs no padding, so it is padded here as in a batch with a longer one. There are three masks:

    padding     of self-attention in encoder and decoder: hides the padding
    look_ahead  of the decoder's self-attention: hides later tokens
    cross       of the encoder–decoder attention: hides the padding of the source

A language model has the first two, an encoder the first.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import Message, UserError
from glassformer.glass.interventions import Intervention, Interventions, Scope
from glassformer.glass.question_trace import QuestionTrace
from glassformer.glass.trace import ProbeWrapper, Trace, trace_sequence, trace_teacher_forced

MASKS = ("padding", "look_ahead", "cross")
SIDES = ("encoder", "decoder")
PADDING_TOKEN = "<pad>"
MAX_PADDING = 8
SHOWN_TENSORS = ("mask", "weights", "logits")  # tensors of a pass with other masks that are kept


@dataclass(frozen=True)
class SetMask(Intervention):
    """Replace the mask of an attention layer.

    Attributes:
        real: hide the columns from this one on; None: hide none of them.
        look_ahead: also hide later tokens.
        square: self-attention, with as many rows as columns; otherwise one row is broadcast to all.
    """

    real: int | None = None
    look_ahead: bool = False
    square: bool = True
    tensors = ("mask",)

    def apply(self, tensor: Tensor, row: int, scope: Scope) -> Tensor:
        columns = tensor.shape[-1]
        mask_QK = tensor.new_zeros(columns if self.square else 1, columns)
        if self.look_ahead:
            mask_QK += torch.full_like(mask_QK, float("-inf")).triu(1)
        if self.real is not None:
            mask_QK[:, self.real :] = float("-inf")
        return mask_QK


@dataclass(frozen=True)
class MaskComparison:
    """A padded pass with some of the masks, compared with one that has all of them.

    Attributes:
        trace: masks, weights and logits of the pass with some of the masks; source and target end with padding.
        written: the output whose probability is compared.
        before: log-probability of each of its tokens with all masks.
        after: the same with the chosen masks.
        apart: the largest difference that padding makes to a logit with all masks (rounding).
    """

    trace: Trace
    written: list[str]
    before: list[float]
    after: list[float]
    apart: float


def removable_masks(found: Trace) -> tuple[str, ...]:
    """Return the masks of a traced model that can be removed; none if it has no attention mask or no logits."""
    kinds = {layer.kind for layer in found.attention_layers}
    if "logits" not in found.tensors or isinstance(found, QuestionTrace):
        return ()
    if "decoder" in kinds:
        return MASKS if "cross" in kinds else ("padding", "look_ahead") if not found.source else ()
    return ("padding",) if "encoder" in kinds and "encoder.tokens" in found.tensors else ()


def trace_with_masks(model: Any, found: Trace, masks: Collection[str], *, padding: int, eos: int) -> MaskComparison:
    """Repeat a traced pass with `padding` tokens of padding and only some of `removable_masks(found)`.

    The output that is compared is: of a translation, the target that was read and `<eos>`; of a language model, the
    text that was read and the next token; of an encoder, its prediction.
    """
    _check_request(model.max_positions, found, masks, padding)
    inputs = {side: found[f"{side}.tokens"].tolist() for side in SIDES if f"{side}.tokens" in found.tensors}
    source, read = (len(inputs.get(side, [])) for side in SIDES)
    changed = Interventions(
        [
            SetMask("encoder.*.self", source if "padding" in masks else None),
            SetMask("decoder.*.self", read if "padding" in masks else None, "look_ahead" in masks),
            SetMask("decoder.*.cross", source if "cross" in masks else None, square=False),
        ]
    )
    rows = [[*tokens, *[model.pad] * padding] for tokens in inputs.values()]
    own, other = (_trace_padded(model, found, rows, padding, wrap) for wrap in (Interventions([]), changed))
    written = output_tokens(found, inputs.get("decoder"), eos)
    kept = {name: tensor for name, tensor in other.tensors.items() if other.graph[name].name in SHOWN_TENSORS}
    real = found["logits"].shape[0]
    return MaskComparison(
        replace(other, tensors=kept, to_tokens=found.to_tokens),
        found.to_tokens(written),
        own.log_probabilities_of(written),
        other.log_probabilities_of(written),
        float((own["logits"][:real] - found["logits"]).abs().max()),
    )


def _trace_padded(model: Any, found: Trace, rows: list[list[int]], padding: int, wrap: ProbeWrapper) -> Trace:
    if len(rows) == 2:
        return trace_teacher_forced(model, found.to_tokens, *rows, wrap=wrap)
    tokens = [*(found.source or found.target), *[PADDING_TOKEN] * padding]
    return trace_sequence(model, lambda _: tokens, *rows, to_labels=found.to_tokens, wrap=wrap)


def output_tokens(found: Trace, read: list[int] | None, eos: int) -> list[int]:
    """Return the output whose probability is compared."""
    if read is None:
        predicted: list[int] = found.log_probabilities().argmax(dim=-1).tolist()
        return predicted
    has_target = bool(found.source) and found.last_token is None
    return [*read[1:], eos] if has_target else found.written_tokens


def _check_request(max_positions: int | None, found: Trace, masks: Collection[str], padding: int) -> None:
    if not (possible := removable_masks(found)):
        raise UserError("This model has no masks to remove.", hint="choose a Transformer trained for translation")
    if unknown := sorted(set(masks) - set(possible)):
        raise UserError(
            Message("There is no mask named {name}.", name=unknown[0]),
            hint=Message("choose from {names}", names=", ".join(possible)),
        )
    if not 1 <= padding <= MAX_PADDING:
        raise UserError(
            Message("The number of padding tokens cannot be {n}.", n=padding),
            hint=Message("choose a number from 1 to {last}", last=MAX_PADDING),
        )
    length = max(len(found.source), len(found.target)) + padding
    if max_positions is not None and length > max_positions:
        raise UserError(
            Message(
                "With padding the sentence has {n} tokens; the model reads at most {most}.",
                n=length,
                most=max_positions,
            ),
            hint="use a shorter sentence",
        )
