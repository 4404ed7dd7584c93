"""A trace: every named tensor of a forward pass over one sentence, its provenance, and the tokens of its axes.

The provenance is recorded in `nn/probe.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import UserError
from glassformer.glass.numpy_code import numpy_code
from glassformer.inference.predictor import SequencePredictor
from glassformer.inference.translator import Translator
from glassformer.nn.probe import Graph, Probe, Provenance, ProvenanceError, Recorder, named_weights
from glassformer.reference import attention, embeddings
from glassformer.reference.operation import Array, Entry
from glassformer.text.tokenizer import EOS, SOS

# Encoder and decoder self-attention, encoder–decoder attention, and the attention of a text to a question about it.
KINDS = ("encoder", "decoder", "cross", "question")
FIRST_SHOWN = ("cross", "question", "encoder", "decoder")  # the first of these that a model has is shown by default

# Returns the tokens (or labels) of ids as text.
ToTokens = Callable[[Sequence[int]], list[str]]
# Given the recorder of a pass and the index of its first row, returns the probe that the model is given.
ProbeWrapper = Callable[[Recorder, int], Probe]


@dataclass(frozen=True)
class NextToken:
    """A candidate for the next token: its id, its text and its probability."""

    token: int
    piece: str
    probability: float


@dataclass(frozen=True)
class AttentionLayer:
    """The attention of one layer: the `name` of its weights (H×Q×K), and the tokens of their rows and columns."""

    kind: str
    layer: int
    name: str
    rows: list[str]
    columns: list[str]


@dataclass(frozen=True)
class Trace:
    """The tensors that a model computed for one source and target: `trace["decoder.0.cross.weights"]`.

    Attributes:
        source: tokens that the encoder read, `<eos>` last.
        target: tokens that the decoder read, `<sos>` first.
        predicted: the most probable token (or label) after each token.
        tensors: every named tensor, without its batch axis, in the order of the pass.
        free_running: whether the decoder read its own output, one step at a time.
        last_token: the token written last, after all tokens read; None: the most probable one.
        to_tokens: returns the tokens (or labels) of ids.
        graph: the provenance of every tensor.
        weights: the parameters and buffers of the model.
    """

    source: list[str]
    target: list[str]
    predicted: list[str]
    tensors: dict[str, Tensor]
    free_running: bool = False
    last_token: int | None = None
    to_tokens: ToTokens = field(default=lambda ids: [str(i) for i in ids], repr=False, compare=False)
    graph: Graph = field(default_factory=dict, repr=False, compare=False)
    weights: Mapping[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    # -------------------------------------------------------------------------------- provenance

    def provenance(self, name: str) -> Provenance:
        """Return the operation that computed a tensor, and its operands."""
        found = self.graph[name]
        optional = found.operation.operands
        missing = [role for role, tensor in found.tensors.items() if tensor not in self.tensors]
        if wrong := [role for role in missing if not optional[role]]:
            raise ProvenanceError(f"the operand {wrong[0]} of {name} was not recorded: {found.tensors[wrong[0]]}")
        return replace(found, tensors={role: at for role, at in found.tensors.items() if role not in missing})

    def is_input(self, name: str) -> bool:
        """Return whether a tensor is an input of the model or was set by an intervention."""
        return self.graph[name].operation.compute is embeddings.given

    def operands(self, name: str) -> dict[str, Any]:
        """Return the values of a tensor's operands by their role: arrays and constants."""
        found = self.provenance(name)
        values: dict[str, Any] = {role: self.tensors[tensor].numpy() for role, tensor in found.tensors.items()}
        for role, weight in found.weights.items():
            whole = self.weights[weight.name].detach().cpu().float().numpy()
            values[role] = whole if weight.rows is None else whole[slice(*weight.rows)]
        values |= found.constants
        return {role: values[role] for role in found.operation.operands if role in values}

    def recompute(self, name: str) -> Array | None:
        """Compute a tensor from its operands with NumPy; return None for an input of the model."""
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
    def attention_layers(self) -> list[AttentionLayer]:
        """Every attention layer of the model, in the order of the pass."""
        found = []
        for name, made in self.graph.items():
            if attention.attention_weights in (made.operation, made.operation.replaces) and name in self.tensors:
                side, *inner = made.path
                kind = "cross" if "cross" in inner else str(side)
                layer = next((part for part in inner if isinstance(part, int)), 0)
                found.append(AttentionLayer(kind, layer, name, *self._axes(kind)))
        return found

    def layers_of_kind(self, kind: str) -> list[AttentionLayer]:
        """Return the attention layers of one kind."""
        return [layer for layer in self.attention_layers if layer.kind == kind]

    def attention_layer(self, kind: str = "cross", layer: int = -1) -> AttentionLayer:
        """Return one attention layer: "encoder" or "decoder" self-attention, "cross" or "question"."""
        found = self.layers_of_kind(kind)
        if not found:
            raise UserError(f"This model has no {kind} attention.", hint="list its tensors: list(trace.tensors)")
        if not -len(found) <= layer < len(found):
            side = "decoder" if kind == "cross" else kind
            raise UserError(f"There is no {side} layer {layer}.", where="--layer", hint=f"use 0 to {len(found) - 1}")
        return found[layer]

    @property
    def main_kind(self) -> str:
        """The kind of attention that is shown by default; the model must have attention."""
        return next(kind for kind in FIRST_SHOWN if self.layers_of_kind(kind))

    def attention(self, kind: str = "cross", layer: int = -1) -> Tensor:
        """Return the attention weights of one layer, H×Q×K."""
        return self.tensors[self.attention_layer(kind, layer).name]

    def sibling(self, name: str, other: str) -> str | None:
        """Return the full name of the tensor called `other` in the scope of a tensor; None if there is none."""
        path = self.graph[name].path
        return next((full for full, made in self.graph.items() if made.path == path and made.name == other), None)

    # -------------------------------------------------------------------------------- output

    @property
    def written(self) -> list[str]:
        """The token that follows each one that the decoder read: of the target, or its own output."""
        last = self.predicted[-1:] if self.last_token is None else self.to_tokens([self.last_token])
        return [*self.target[1:], *last]

    @property
    def written_tokens(self) -> list[int]:
        """`written` as token ids."""
        last = int(self["logits"][-1].argmax()) if self.last_token is None else self.last_token
        return [*self["decoder.tokens"].tolist()[1:], last]

    def log_probabilities(self) -> Tensor:
        """Return the log-probability of every token after each token read, T×V."""
        logits = self.tensors["logits"]
        return (logits if logits.dim() > 1 else logits[None]).log_softmax(dim=-1)

    def log_probabilities_of(self, tokens: Sequence[int]) -> list[float]:
        """Return the log-probability of each token of an output, given the tokens before it."""
        found: list[float] = self.log_probabilities()[range(len(tokens)), list(tokens)].tolist()
        return found

    def next_tokens(self, count: int = 10) -> list[list[NextToken]]:
        """Return the most probable tokens after each token read; nothing for a model without logits."""
        if "logits" not in self.tensors:
            return []
        log_probability_TV = self.log_probabilities()
        best_TC = log_probability_TV.topk(min(count, log_probability_TV.shape[1]), dim=1)
        return [
            [NextToken(*of) for of in zip(tokens, self.to_tokens(tokens), probabilities, strict=True)]
            for tokens, probabilities in zip(best_TC.indices.tolist(), best_TC.values.exp().tolist(), strict=True)
        ]

    def _axes(self, kind: str) -> tuple[list[str], list[str]]:
        """Return the tokens of rows and columns. A row of cross-attention is labelled with the token it predicts."""
        if kind == "cross":
            return self.written, self.source
        return (self.target, self.target) if kind == "decoder" else (self.source, self.source)

    def view(self, kind: str | None = None, layer: int = -1, head: int | None = None) -> list[str]:
        """Draw the attention weights of one layer for a terminal: one head, or the mean of all."""
        from glassformer.glass.terminal import attention_view

        return attention_view(self, kind or self.main_kind, layer, head)

    def _repr_html_(self) -> str:
        from glassformer.glass.html import fragment

        return fragment(self)


# ------------------------------------------------------------------------------------ traces of predictors


def trace_text(predictor: SequencePredictor, text: str) -> Trace:
    """Trace the forward pass of a predictor that reads one token sequence."""
    ids, labels = predictor.encode(text), predictor.labels
    to_labels = (lambda chosen: [labels[i] for i in chosen]) if labels else None
    return trace_sequence(predictor.model, predictor.tokenizer.pieces, ids, to_labels=to_labels)


def trace_translation(
    translator: Translator,
    source: str,
    target: str | Sequence[int] | None = None,
    *,
    forced: Mapping[int, int] | None = None,
) -> Trace:
    """Trace a translation: teacher-forced on a target (text or tokens), or free-running if there is none.

    A free-running decoder writes the most probable token in each step, except the tokens of `forced`, by step.
    """
    ids, tokenizer = translator.encode_sentence(source), translator.tokenizer
    if target is None:
        limit = translator.output_limit(ids)
        return trace_free_running(translator.model, tokenizer.pieces, ids, sos=SOS, eos=EOS, limit=limit, forced=forced)
    read = tokenizer.encode(target) if isinstance(target, str) else target
    return trace_teacher_forced(translator.model, tokenizer.pieces, ids, [SOS, *read])


def trace_output(translator: Translator, source: str, written: Sequence[int]) -> Trace | None:
    """Trace the pass in which a model reads its own output, as `Translator.greedy_tokens` returns it.

    Return None if the model does not write exactly these tokens.
    """
    limit = translator.output_limit(translator.encode_sentence(source))
    found = replace(trace_translation(translator, source, written[:-1]), last_token=written[-1])
    ended = written[-1] == EOS or len(written) == limit
    return found if ended and found["logits"].argmax(dim=1).tolist() == list(written) else None


# ------------------------------------------------------------------------------------ traces of models


def _unwrapped(recorder: Recorder, row: int) -> Probe:
    return recorder


@torch.inference_mode()
def trace_teacher_forced(
    model: Any, to_tokens: ToTokens, source: Sequence[int], target: Sequence[int], *, wrap: ProbeWrapper = _unwrapped
) -> Trace:
    """Trace one teacher-forced pass. `target` begins with `<sos>`."""
    recorder = Recorder(copy=False, model=model)
    model(_row(model, source), _row(model, target), wrap(recorder, 0))
    return recorded(recorder, model, to_tokens, source=to_tokens(source), target=to_tokens(target))


@torch.inference_mode()
def trace_sequence(
    model: Any,
    to_tokens: ToTokens,
    tokens: Sequence[int],
    *,
    to_labels: ToTokens | None = None,
    wrap: ProbeWrapper = _unwrapped,
) -> Trace:
    """Trace one pass of a model that reads one sequence: an encoder or a language model.

    `to_labels` returns the names of what the model predicts, if that is not tokens.
    """
    recorder = Recorder(copy=False, model=model)
    model(_row(model, tokens), wrap(recorder, 0))
    read, is_encoder = to_tokens(tokens), "encoder.tokens" in recorder.tensors
    source, target = (read, []) if is_encoder else ([], read)
    return recorded(recorder, model, to_labels or to_tokens, source=source, target=target)


@torch.inference_mode()
def trace_free_running(
    model: Any,
    to_tokens: ToTokens,
    source: Sequence[int],
    *,
    sos: int,
    eos: int,
    limit: int,
    forced: Mapping[int, int] | None = None,
    wrap: ProbeWrapper = _unwrapped,
) -> Trace:
    """Trace free running: write the most probable token in each step, until `<eos>` or the limit.

    `forced` are tokens that are written instead of the most probable ones, by step.
    """
    read, whole = [sos], Recorder(copy=False, model=model)
    steps: list[Recorder] = []
    probe = wrap(whole, 0)
    state = model.start(model.encode(_row(model, source), probe), probe=probe)
    while True:
        recorder = Recorder(copy=False, model=model, known=whole)
        logits_1V, state = model.step(_row(model, read[-1:])[0], state, wrap(recorder, len(steps)))
        steps.append(recorder)
        token = (forced or {}).get(len(steps) - 1, int(logits_1V.argmax()))
        if token == eos or len(steps) == limit:
            break
        read.append(token)
    found = recorded(whole, model, to_tokens, source=to_tokens(source), target=to_tokens(read))
    return replace(_with_steps(found, steps), free_running=True, last_token=token)


def _row(model: Any, tokens: Sequence[int]) -> Tensor:
    return torch.tensor([list(tokens)], device=next(model.parameters()).device)


def recorded(
    recorder: Recorder, model: nn.Module, to_tokens: ToTokens, *, source: list[str], target: list[str]
) -> Trace:
    """Return the trace of the tensors of a recorder, without their batch axis."""
    tensors = {name: _first_of_batch(tensor, recorder.graph[name]).cpu() for name, tensor in recorder.tensors.items()}
    weights = dict(named_weights(model))
    found = Trace(source, target, [], tensors, to_tokens=to_tokens, graph=dict(recorder.graph), weights=weights)
    return replace(found, predicted=_predicted(found))


def _predicted(found: Trace) -> list[str]:
    logits = found.tensors.get("logits", torch.empty(0, 1))
    return found.to_tokens((logits if logits.dim() > 1 else logits[None]).argmax(dim=-1).tolist())


def _first_of_batch(tensor: Tensor, made: Provenance) -> Tensor:
    """Return a tensor without its batch axis, which has length 1."""
    return tensor[0] if made.operation.batched and tensor.dim() > 1 else tensor


def _with_steps(found: Trace, steps: list[Recorder]) -> Trace:
    """Return a trace with the tensors of all decoding steps, joined as in one pass over all tokens."""
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
    """Join the tensors of all steps.

    A step of self-attention has one column per key so far; the missing columns are filled as masked ones.
    """
    operation, axis = made.operation, made.operation.position_axis
    if steps[0].dim() < -axis:  # a vector: one row per step, or a constant
        return torch.stack(steps) if operation.batched else steps[-1]
    if steps[-1].shape[axis] > steps[0].shape[axis]:
        return steps[-1]  # from a cache: all steps so far
    width = max(step.shape[-1] for step in steps)
    padded = [torch.nn.functional.pad(step, (0, width - step.shape[-1]), value=operation.unwritten) for step in steps]
    return torch.cat(padded, dim=axis)
