"""The effect of interventions: the log-probability of an output before and after, and the new output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.errors import Message, UserError
from glassformer.glass.interventions import (
    ForceToken,
    Intervention,
    InterventionProbe,
    Interventions,
    RemoveMask,
    Scope,
)
from glassformer.glass.trace import trace_free_running, trace_teacher_forced, trace_translation
from glassformer.inference.translator import Translator
from glassformer.text.tokenizer import EOS, SOS


@dataclass(frozen=True)
class InterventionEffect:
    """The effect of interventions.

    Attributes:
        written: the output whose probability is compared, `<eos>` last.
        before, after: log-probability of each of its tokens.
        output_before, output_after: the outputs of the model without and with the interventions.
    """

    written: list[str]
    before: list[float]
    after: list[float]
    output_before: list[int]
    output_after: list[int]

    @property
    def change(self) -> float:
        """The change in the log-probability of the whole output. Negative: the output became less probable."""
        return sum(self.after) - sum(self.before)


@dataclass(frozen=True)
class HeadAblation:
    """The change in log-probability when a head is ablated, by layer and head.

    Attributes:
        log_probability: of the output with all heads.
    """

    kind: str
    written: list[str]
    log_probability: float
    change: list[list[float]]


def intervention_effect(
    translator: Translator, source: str, interventions: Sequence[Intervention], target: str | None = None
) -> InterventionEffect:
    """Return the effect of interventions on a target, or on the unchanged model's own output."""
    model, to_tokens = translator.model, translator.tokenizer.pieces
    ids = translator.encode_sentence(source)
    limit = translator.output_limit(ids)
    wrap = Interventions(interventions)
    forced = {one.step: one.token for one in interventions if isinstance(one, ForceToken)}
    own = trace_free_running(model, to_tokens, ids, sos=SOS, eos=EOS, limit=limit)
    other = trace_free_running(model, to_tokens, ids, sos=SOS, eos=EOS, limit=limit, forced=forced, wrap=wrap)
    output_before, output_after = (trace["decoder.tokens"].tolist()[1:] for trace in (own, other))
    written = [*(output_before if target is None else translator.tokenizer.encode(target)), EOS]
    read = [SOS, *written[:-1]]
    before = trace_teacher_forced(model, to_tokens, ids, read)
    if any(isinstance(one, RemoveMask) for one in interventions):
        after = trace_teacher_forced(model, to_tokens, ids, read, wrap=wrap)
    else:
        # Step by step: in one pass, some families pass a tensor to the probe only after it was used.
        steps = dict(enumerate(written))
        after = trace_free_running(model, to_tokens, ids, sos=SOS, eos=-1, limit=len(written), forced=steps, wrap=wrap)
    wrap.refuse_unused(own.graph)
    return InterventionEffect(
        to_tokens(written),
        before.log_probabilities_of(written),
        after.log_probabilities_of(written),
        output_before,
        output_after,
    )


@dataclass(frozen=True)
class SilenceOnePerRow(Intervention):
    """Silence head h of a layer in batch row `first + h` only."""

    first: int = 0
    tensors = ("head_output",)

    def apply(self, tensor: Tensor, row: int, scope: Scope) -> Tensor:
        head = torch.arange(tensor.shape[1], device=tensor.device)
        tensor = tensor.clone()
        tensor[self.first + head, head] = 0
        return tensor


@torch.inference_mode()
def ablate_heads(
    translator: Translator, source: str, target: str | None = None, *, kind: str = "encoder"
) -> HeadAblation:
    """Silence each head of a kind of attention in turn, in one pass: batch row 0 is unchanged, others lack one head.

    The output whose probability is compared is the target, or the model's own output.
    """
    found, model = trace_translation(translator, source, target), translator.model
    layers = found.layers_of_kind(kind)
    if not layers or found.sibling(layers[0].name, "head_output") is None:
        raise UserError(
            Message("This model has no {kind} attention heads.", kind=kind),
            hint="choose a Transformer or another kind of attention",
        )
    heads = [len(found[layer.name]) for layer in layers]
    first_rows = [1 + sum(heads[:i]) for i in range(len(heads))]
    parts = [".".join(map(str, found.graph[layer.name].path)) for layer in layers]
    probe = InterventionProbe([SilenceOnePerRow(part, first) for part, first in zip(parts, first_rows, strict=True)])
    device, rows = next(model.parameters()).device, sum(heads) + 1
    read = found["decoder.tokens"].tolist()
    written = [*read[1:], EOS]
    source_BS = torch.tensor([translator.encode_sentence(source)], device=device).expand(rows, -1)
    target_BT = torch.tensor([read], device=device).expand(rows, -1)
    log_probability_BTV = model(source_BS, target_BT, probe).log_softmax(dim=-1)
    written_BT1 = torch.tensor(written, device=device)[None, :, None].expand(rows, -1, 1)
    total_B = log_probability_BTV.gather(2, written_BT1)[:, :, 0].cpu().double().sum(dim=1)
    change = (total_B[1:] - total_B[0]).split(heads)
    return HeadAblation(kind, found.to_tokens(written), float(total_B[0]), [layer.tolist() for layer in change])
