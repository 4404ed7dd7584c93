"""What interventions do to an output: its log-probability with and without them, and what is written instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import Message, UserError
from glassformer.glass.interventions import Change, ForceToken, Making, RemoveMask
from glassformer.glass.trace import Pieces, Trace, trace, trace_steps
from glassformer.nn.probe import Probe
from glassformer.reference.operation import Operation


@dataclass(frozen=True)
class Effect:
    """What changes did: to the log-probability of an output, token by token, and to what is written."""

    written: list[str]  # the output whose probability is compared, `<eos>` last
    before: list[float]  # log-probability of each of its tokens
    after: list[float]
    output_before: list[int]
    output_after: list[int]  # as the changed model writes it

    @property
    def change(self) -> float:
        """In the log-probability of the whole output. Below 0: the changes made it less likely."""
        return sum(self.after) - sum(self.before)


@dataclass(frozen=True)
class Grid:
    """The change in log-probability when a head is silenced, for each layer (down) and head (across)."""

    kind: str
    written: list[str]
    log_probability: float  # with every head
    change: list[list[float]]


def effect_of(
    model: Any,
    pieces: Pieces,
    source: Sequence[int],
    changes: Sequence[Change],
    target: Sequence[int] | None = None,
    *,
    sos: int,
    eos: int,
    limit: int,
) -> Effect:
    """Of changes on an output: `target` (without `<sos>` and `<eos>`), or the unchanged model's own."""
    forced = {change.step: change.token for change in changes if isinstance(change, ForceToken)}
    making = Making(changes)
    own = trace_steps(model, pieces, source, sos=sos, eos=eos, limit=limit)
    other = trace_steps(model, pieces, source, sos=sos, eos=eos, limit=limit, forced=forced, watch=making)
    written = [*(target if target is not None else _read(own)[1:]), eos]
    read = [sos, *written[:-1]]
    before = _of_tokens(trace(model, pieces, source, read), written)
    if any(isinstance(change, RemoveMask) for change in changes):
        after = _of_tokens(trace(model, pieces, source, read, watch=making), written)
    else:
        # Step by step, as some families show what they compute over time only when it has been used.
        steps = dict(enumerate(written))
        made = trace_steps(model, pieces, source, sos=sos, eos=-1, limit=len(written), forced=steps, watch=making)
        after = _of_tokens(made, written)
    making.refuse_idle(list(own.tensors))
    return Effect(pieces(written), before, after, _read(own)[1:], _read(other)[1:])


def grid_of(
    model: Any, found: Trace, kind: str, source: Sequence[int], target: Sequence[int], *, sos: int, eos: int
) -> Grid:
    """The change in log-probability of `target` as each head of a kind of attention is silenced: one pass for all.

    `found` is a trace of the model, which knows what attentions there are.
    """
    looks = [look for look in found.looks if look.kind == kind]
    if not looks or f"{looks[0].name.removesuffix('weights')}head_output" not in found.tensors:
        raise UserError(
            Message("This model has no {kind} attention heads.", kind=kind),
            hint="choose a Transformer or another kind of attention",
        )
    heads = [len(found[look.name]) for look in looks]
    contexts = [look.name.removesuffix("weights") + "head_output" for look in looks]
    each = _EachSilenced(contexts, heads)
    written = [*target, eos]
    device = next(model.parameters()).device
    rows = sum(heads) + 1
    source_BS = torch.tensor([list(source)], device=device).expand(rows, -1)
    target_BT = torch.tensor([[sos, *target]], device=device).expand(rows, -1)
    with torch.inference_mode():
        log_probability_BTV = model(source_BS, target_BT, each).log_softmax(dim=-1)
    of_written_B = log_probability_BTV.gather(
        2, torch.tensor(written, device=device)[None, :, None].expand(rows, -1, 1)
    )
    total_B = of_written_B[:, :, 0].double().sum(dim=1)
    change = (total_B[1:] - total_B[0]).split(heads)
    return Grid(kind, found.pieces(written), float(total_B[0]), [layer.tolist() for layer in change])


class _EachSilenced(Probe):
    """Row 0 of the batch is left as it is; every other has one head silenced, those of the first layer first."""

    def __init__(self, contexts: list[str], heads: list[int], prefix: str = "") -> None:
        self.contexts, self.heads, self.prefix = contexts, heads, prefix

    def at(self, *path: str | int) -> Probe:
        return _EachSilenced(self.contexts, self.heads, self.prefix + "".join(f"{part}." for part in path))

    def __call__(self, name: str, tensor: Tensor, operation: Operation | None = None, *operands: Any) -> Tensor:
        if self.prefix + name not in self.contexts:
            return tensor
        layer = self.contexts.index(self.prefix + name)
        first = 1 + sum(self.heads[:layer])
        head = torch.arange(self.heads[layer], device=tensor.device)
        tensor = tensor.clone()
        tensor[first + head, head] = 0
        return tensor


def _read(found: Trace) -> list[int]:
    return [int(token) for token in found["decoder.tokens"]]


def _of_tokens(found: Trace, written: Sequence[int]) -> list[float]:
    rows = torch.arange(len(written))
    of_token_T: list[float] = found.log_probabilities()[rows, torch.tensor(written)].tolist()
    return of_token_T
