"""A trace: every named tensor of one pass over one sentence, with the tokens that its axes stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import UserError
from glassformer.glass.parents import Parents
from glassformer.nn.probe import Probe, Recorder

# Self-attention of either side; of the decoder to the encoder's output; of a text to the question about it.
KINDS = ("encoder", "decoder", "cross", "question")
WITHOUT_BATCH = ("positions", "mask")  # T×D and T×T: the same for every sentence
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
    """One layer's attention: `name` of its weights (H×Q×K), and what their rows and columns stand for."""

    kind: str
    layer: int
    name: str
    rows: list[str]
    columns: list[str]


@dataclass(frozen=True)
class Trace:
    """What a model computed for one source and target, by name: `trace["decoder.0.cross.weights"]`."""

    source: list[str]  # pieces that the encoder read, `<eos>` last
    target: list[str]  # pieces that the decoder read, `<sos>` first
    predicted: list[str]  # piece (or label) that it thought likeliest after each of those
    tensors: dict[str, Tensor]
    free_running: bool = False  # it read what it had written itself, one step at a time
    pieces: Pieces = field(default=lambda ids: [str(i) for i in ids], repr=False, compare=False)
    last_token: int | None = None  # the token written last, after all that were read; None for the likeliest one

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    @cached_property
    def looks(self) -> list[Look]:
        """Every attention of the model, in the order of the pass."""
        found = []
        for name in self.tensors:
            if match := re.fullmatch(r"(encoder|decoder|question)\.(?:(\d+)\.)?(?:(self|cross)\.)?weights", name):
                side, layer, inner = match.groups()
                kind = "cross" if inner == "cross" else side
                found.append(Look(kind, int(layer or 0), name, *self._axes(kind)))
        return found

    def look(self, kind: str = "cross", layer: int = -1) -> Look:
        """One layer's attention: "encoder" or "decoder" self-attention, or "cross"."""
        found = [look for look in self.looks if look.kind == kind]
        if not found:
            raise UserError(
                f"This model has no {kind} attention to look at.", fix="see what it has: list(trace.tensors)"
            )
        if not -len(found) <= layer < len(found):
            raise UserError(
                f"There is no {'decoder' if kind == 'cross' else kind} layer {layer}.",
                where="--layer",
                fix=f"take one from 0 to {len(found) - 1}",
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

    def parents(self, model: Any) -> Parents:
        """How each tensor comes from others, and from the weights of the model that was traced."""
        return Parents(model, self.tensors, free_running=self.free_running)

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
    """One teacher-forced pass under a probe. `target` begins with `<sos>`; `pieces` turns ids into their names."""
    recorder = Recorder(copy=False)
    model(_row(model, source), _row(model, target), watch(recorder, 0))
    return seen(recorder.tensors, pieces, source=pieces(source), target=pieces(target))


@torch.inference_mode()
def trace_alone(
    model: Any, pieces: Pieces, tokens: Sequence[int], *, answers: Pieces | None = None, watch: Watch = _recorder
) -> Trace:
    """One pass of a model that reads one sequence: an encoder, a language model.

    answers  names what it chooses from, where that is not the pieces
    """
    recorder = Recorder(copy=False)
    model(_row(model, tokens), watch(recorder, 0))
    read, encodes = pieces(tokens), "encoder.tokens" in recorder.tensors
    return seen(recorder.tensors, answers or pieces, source=read if encodes else [], target=[] if encodes else read)


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
    """Free-running: encodes, then writes the likeliest token a step, reading what it wrote, until `<eos>` or the limit.

    forced  tokens that are written whatever the model thinks, by the number of their step
    """
    read, whole = [sos], Recorder(copy=False)
    steps: list[dict[str, Tensor]] = []
    state = model.start(model.encode(_row(model, source), watch(whole, 0)))
    while True:
        recorder = Recorder(copy=False)
        logits_1V, state = model.step(_row(model, read[-1:])[0], state, watch(recorder, len(steps)))
        steps.append({name: _of_the_sentence(name, tensor).cpu() for name, tensor in recorder.tensors.items()})
        token = (forced or {}).get(len(steps) - 1, int(logits_1V.argmax()))
        if token == eos or len(steps) == limit:
            break
        read.append(token)
    tensors = {name: _joined(name, [step[name] for step in steps]) for name in steps[0]}
    found = seen(whole.tensors, pieces, source=pieces(source), target=pieces(read), more=tensors)
    return replace(found, free_running=True, last_token=token)


def _row(model: Any, tokens: Sequence[int]) -> Tensor:
    return torch.tensor([list(tokens)], device=next(model.parameters()).device)


def seen(
    tensors: Mapping[str, Tensor],
    pieces: Pieces,
    *,
    source: list[str],
    target: list[str],
    more: Mapping[str, Tensor] | None = None,
) -> Trace:
    """A trace of what a recorder saw, without the batch axis."""
    every = {name: _of_the_sentence(name, tensor).cpu() for name, tensor in tensors.items()} | dict(more or {})
    logits = every.get("logits", torch.empty(0, 1))
    predicted = pieces((logits if logits.dim() > 1 else logits[None]).argmax(dim=-1).tolist())
    return Trace(source, target, predicted, every, pieces=pieces)


def _of_the_sentence(name: str, tensor: Tensor) -> Tensor:
    """Without the batch axis, of length 1."""
    has_none = tensor.dim() == 1 or (tensor.dim() == 2 and name.split(".")[-1] in WITHOUT_BATCH)
    return tensor if has_none else tensor[0]


def _joined(name: str, steps: list[Tensor]) -> Tensor:
    """One tensor of all steps, as a pass over all tokens at once would have it.

    A step of self-attention has as many columns as keys had been written. The others are those of a mask: scores of
    −∞, weights of 0.
    """
    last = name.split(".")[-1]
    if last in ("key", "value"):
        return steps[-1]  # a cache: all so far
    if last in ("tokens", "window"):
        return torch.cat(steps)
    if steps[0].dim() <= 1:
        return torch.stack(steps)
    longest = max(step.shape[-1] for step in steps)
    rest = 0.0 if last == "weights" else float("-inf")
    widened = [torch.nn.functional.pad(step, (0, longest - step.shape[-1]), value=rest) for step in steps]
    return torch.cat(widened, dim=-2)
