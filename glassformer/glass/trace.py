"""A trace: every named tensor of one pass over one sentence, where each comes from, and the tokens of its axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import UserError
from glassformer.glass.numpy_code import numpy_code
from glassformer.nn.probe import Graph, Probe, Provenance, ProvenanceError, Recorder, named_weights
from glassformer.reference import attention, embeddings
from glassformer.reference.operation import Array, Entry

# Self-attention of either side, encoder–decoder attention, and the attention of a text to the question about it.
KINDS = ("encoder", "decoder", "cross", "question")
TOP = 10

Pieces = Callable[[Sequence[int]], list[str]]
# What watches a step: given the recorder of the step and the number of its first row.
Watch = Callable[[Recorder, int], Probe]


@dataclass(frozen=True)
class Choice:
    """A token that could have come next, and how likely the model thought it."""

    token: int
    piece: str
    probability: float


@dataclass(frozen=True)
class Look:
    """One layer's attention: `name` of its weights (H×Q×K), and the tokens of their rows and columns."""

    kind: str
    layer: int
    name: str
    rows: list[str]
    columns: list[str]


@dataclass(frozen=True)
class Trace:
    """What a model computed for one source and target, by name: `trace["decoder.0.cross.weights"]`."""

    source: list[str]  # tokens that the encoder read, `<eos>` last
    target: list[str]  # tokens that the decoder read, `<sos>` first
    predicted: list[str]  # most probable token (or label) after each of those
    tensors: dict[str, Tensor]
    free_running: bool = False  # the decoder read its own output, one step at a time
    last_token: int | None = None  # the token written last, after all that were read; None: the most probable one
    pieces: Pieces = field(default=lambda ids: [str(i) for i in ids], repr=False, compare=False)
    graph: Graph = field(default_factory=dict, repr=False, compare=False)
    weights: Mapping[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    # -------------------------------------------------------------------------------- where tensors come from

    def provenance(self, name: str) -> Provenance:
        """Return the operation that a tensor was computed by, and its operands."""
        found = self.graph[name]
        optional = found.operation.operands
        missing = [role for role, tensor in found.tensors.items() if tensor not in self.tensors]
        if wrong := [role for role in missing if not optional[role]]:
            raise ProvenanceError(f"the operand {wrong[0]} of {name} was not recorded: {found.tensors[wrong[0]]}")
        return replace(found, tensors={role: at for role, at in found.tensors.items() if role not in missing})

    def is_input(self, name: str) -> bool:
        """Return whether a tensor is an input of the model (or set by an intervention), not computed from others."""
        return self.graph[name].operation.compute is embeddings.given

    def operands(self, name: str) -> dict[str, Any]:
        """Return the values of a tensor's operands by their role: arrays and constants."""
        found = self.provenance(name)
        values: dict[str, Any] = {role: self.tensors[tensor].numpy() for role, tensor in found.tensors.items()}
        for role, weight in found.weights.items():
            if weight is None:
                raise UserError("An int8 model has no weights to compute with.", hint="load it with --precision fp32")
            whole = self.weights[weight.name].detach().cpu().float().numpy()
            values[role] = whole if weight.rows is None else whole[slice(*weight.rows)]
        values |= found.constants
        return {role: values[role] for role in found.operation.operands if role in values}

    def recompute(self, name: str) -> Array | None:
        """Compute a tensor again from its operands, by NumPy; None for an input of the model."""
        if self.is_input(name):
            return None
        return self.graph[name].operation.compute(**self.operands(name))

    def entry(self, name: str, index: tuple[int, ...]) -> tuple[Entry, dict[str, Array], Any]:
        """Return how one entry is computed, the operand entries it depends on, and its value computed from them."""
        return self.graph[name].operation.entry_value(index, self.operands(name))

    def numpy_code(self, name: str) -> str | None:
        """Return a program that computes a tensor from trace.npz and model.safetensors; None for an input."""
        return None if self.is_input(name) else numpy_code(self.provenance(name))

    # -------------------------------------------------------------------------------- attention

    @cached_property
    def looks(self) -> list[Look]:
        """Every attention of the model, in the order of the pass."""
        found = []
        for name, made in self.graph.items():
            if attention.attention_weights in (made.operation, made.operation.replaces) and name in self.tensors:
                side, *inner = made.path
                kind = "cross" if "cross" in inner else str(side)
                layer = next((part for part in inner if isinstance(part, int)), 0)
                found.append(Look(kind, layer, name, *self._axes(kind)))
        return found

    def look(self, kind: str = "cross", layer: int = -1) -> Look:
        """One layer's attention: "encoder" or "decoder" self-attention, or "cross"."""
        found = [look for look in self.looks if look.kind == kind]
        if not found:
            raise UserError(
                f"This model has no {kind} attention to look at.", hint="see what it has: list(trace.tensors)"
            )
        if not -len(found) <= layer < len(found):
            raise UserError(
                f"There is no {'decoder' if kind == 'cross' else kind} layer {layer}.",
                where="--layer",
                hint=f"take one from 0 to {len(found) - 1}",
            )
        return found[layer]

    def attention(self, kind: str = "cross", layer: int = -1) -> Tensor:
        """Weights of one layer's attention (H×Q×K): where each row looked."""
        return self.tensors[self.look(kind, layer).name]

    @property
    def written(self) -> list[str]:
        """The piece that was written after each one that the decoder read: given, or its own."""
        last = self.predicted[-1:] if self.last_token is None else self.pieces([self.last_token])
        return [*self.target[1:], *last]

    @property
    def written_tokens(self) -> list[int]:
        """`written` as token ids."""
        last = int(self["logits"][-1].argmax()) if self.last_token is None else self.last_token
        return [*self["decoder.tokens"].tolist()[1:], last]

    def log_probabilities(self) -> Tensor:
        """Of every token after each one read, T×V."""
        logits = self.tensors["logits"]
        return (logits if logits.dim() > 1 else logits[None]).log_softmax(dim=-1)

    def choices(self, most: int = TOP) -> list[list[Choice]]:
        """The likeliest tokens after each one read, likeliest first; of a model that chooses nothing, none."""
        if "logits" not in self.tensors:
            return []
        log_probability_TV = self.log_probabilities()
        best_TC = log_probability_TV.topk(min(most, log_probability_TV.shape[1]), dim=1)
        chances_TC = best_TC.values.exp()
        return [
            [Choice(*of) for of in zip(tokens, self.pieces(tokens), chances, strict=True)]
            for tokens, chances in zip(best_TC.indices.tolist(), chances_TC.tolist(), strict=True)
        ]

    def _axes(self, kind: str) -> tuple[list[str], list[str]]:
        """Rows and columns. A row of cross-attention is named after what was written next, which it served."""
        if kind == "cross":
            return self.written, self.source
        return (self.target, self.target) if kind == "decoder" else (self.source, self.source)

    def _repr_html_(self) -> str:
        from glassformer.glass.html import fragment  # which draws traces, and so knows them

        return fragment(self)


def _recorder(recorder: Recorder, row: int) -> Probe:
    return recorder


@torch.inference_mode()
def trace(
    model: Any, pieces: Pieces, source: Sequence[int], target: Sequence[int], *, watch: Watch = _recorder
) -> Trace:
    """Trace one teacher-forced pass. `target` begins with `<sos>`; `pieces` turns ids into tokens."""
    recorder = Recorder(copy=False, model=model)
    model(_row(model, source), _row(model, target), watch(recorder, 0))
    return recorded(recorder, model, pieces, source=pieces(source), target=pieces(target))


@torch.inference_mode()
def trace_alone(
    model: Any, pieces: Pieces, tokens: Sequence[int], *, answers: Pieces | None = None, watch: Watch = _recorder
) -> Trace:
    """Trace one pass of a model that reads one sequence: an encoder, a language model.

    `answers` names what it chooses from, where that is not tokens.
    """
    recorder = Recorder(copy=False, model=model)
    model(_row(model, tokens), watch(recorder, 0))
    read, encodes = pieces(tokens), "encoder.tokens" in recorder.tensors
    source, target = (read, []) if encodes else ([], read)
    return recorded(recorder, model, answers or pieces, source=source, target=target)


@torch.inference_mode()
def trace_steps(
    model: Any,
    pieces: Pieces,
    source: Sequence[int],
    *,
    sos: int,
    eos: int,
    limit: int,
    forced: Mapping[int, int] | None = None,
    watch: Watch = _recorder,
) -> Trace:
    """Trace free running: write the most probable token in each step, until `<eos>` or the limit.

    `forced` are tokens that are written whatever the model predicts, by the number of their step.
    """
    read, whole = [sos], Recorder(copy=False, model=model)
    steps: list[Recorder] = []
    first = watch(whole, 0)
    state = model.start(model.encode(_row(model, source), first), probe=first)
    while True:
        recorder = Recorder(copy=False, model=model, known=whole)
        logits_1V, state = model.step(_row(model, read[-1:])[0], state, watch(recorder, len(steps)))
        steps.append(recorder)
        token = (forced or {}).get(len(steps) - 1, int(logits_1V.argmax()))
        if token == eos or len(steps) == limit:
            break
        read.append(token)
    found = recorded(whole, model, pieces, source=pieces(source), target=pieces(read))
    return replace(_with_steps(found, steps), free_running=True, last_token=token)


def _row(model: Any, tokens: Sequence[int]) -> Tensor:
    return torch.tensor([list(tokens)], device=next(model.parameters()).device)


def recorded(
    recorder: Recorder,
    model: nn.Module,
    pieces: Pieces,
    *,
    source: list[str],
    target: list[str],
) -> Trace:
    """The trace of what a recorder saw, without the batch axis."""
    tensors = {name: _first_of_batch(tensor, recorder.graph[name]).cpu() for name, tensor in recorder.tensors.items()}
    weights = dict(named_weights(model))
    found = Trace(source, target, [], tensors, pieces=pieces, graph=dict(recorder.graph), weights=weights)
    return replace(found, predicted=_predicted(found))


def _predicted(found: Trace) -> list[str]:
    logits = found.tensors.get("logits", torch.empty(0, 1))
    return found.pieces((logits if logits.dim() > 1 else logits[None]).argmax(dim=-1).tolist())


def _first_of_batch(tensor: Tensor, made: Provenance) -> Tensor:
    """Without the batch axis, of length 1."""
    return tensor[0] if made.operation.batched and tensor.dim() > 1 else tensor


def _with_steps(found: Trace, steps: list[Recorder]) -> Trace:
    """A trace with the tensors of all decoding steps, as one pass over all tokens would have them."""
    tensors, graph = dict(found.tensors), dict(found.graph)
    for name, made in steps[-1].graph.items():
        of_steps = [_first_of_batch(step.tensors[name], made).cpu() for step in steps]
        tensors[name] = _joined(of_steps, made)
        graph[name] = made
        if made.operation.so_far is not None and of_steps[0].shape[-1] != of_steps[-1].shape[-1]:
            graph[name] = replace(made, operation=made.operation.so_far)
    joined = replace(found, tensors=tensors, graph=graph)
    return replace(joined, predicted=_predicted(joined))


def _joined(steps: list[Tensor], made: Provenance) -> Tensor:
    """One tensor of all steps.

    A step of self-attention has as many columns as keys were written by then; the other columns are those of a mask.
    """
    operation, axis = made.operation, made.operation.position_axis
    if steps[0].dim() < -axis:  # a vector: one row per step, or a constant
        return torch.stack(steps) if operation.batched else steps[-1]
    if steps[-1].shape[axis] > steps[0].shape[axis]:
        return steps[-1]  # from a cache: everything so far
    width = max(step.shape[-1] for step in steps)
    padded = [torch.nn.functional.pad(step, (0, width - step.shape[-1]), value=operation.unwritten) for step in steps]
    return torch.cat(padded, dim=axis)
