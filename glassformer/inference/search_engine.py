"""The engines that run a model: PyTorch, or the native engine (`glassformer/engine`) on a CPU.

Predictors are written once, against `SearchEngine`. This module does not import PyTorch.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from glassformer import machine
from glassformer.decoding import Hypothesis, Sampling, not_finite
from glassformer.engine.library import MAX_TOKENS, SearchOptions, Unavailable, Unsupported, library
from glassformer.engine.model import NativeModel, Worker, check_sizes, shape_of, unsupported
from glassformer.inference.run_folder import RunFolder
from glassformer.inference.shortlist import Shortlist
from glassformer.text.special_tokens import EOS, SOS

if TYPE_CHECKING:
    import torch
    from torch import nn

EngineName = Literal["auto", "native", "torch"]
Precision = Literal["fp32", "int8"]


@dataclass(frozen=True)
class Search:
    """How to search for the outputs of a batch of sources.

    Attributes:
        beam: 1 is greedy decoding.
        alpha: exponent of the length penalty.
        min_length: minimum number of output tokens.
        no_repeat_ngram: no n-gram of this size occurs twice in an output; 0 allows all.
        sampling: sample the tokens instead.
        seeds: for sampling, one per source.
    """

    beam: int = 1
    alpha: float = 0.6
    min_length: int = 0
    no_repeat_ngram: int = 0
    sampling: Sampling | None = None
    seeds: Sequence[int] = ()


class SearchEngine(Protocol):
    """Searches for the outputs of an encoder–decoder model."""

    name: str  # "native" or "torch"
    batch_rows: int  # sentences times beam size that are decoded at a time: more would not be faster
    max_positions: int | None  # maximum length of a source or output; None if unlimited

    def search(self, sources: list[list[int]], limits: list[int], search: Search) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source (token ids with `<eos>`), best first.

        `limits` are the maximum numbers of output tokens.
        """


class NativeEngine:
    """A Transformer in the native engine. Threads may share it: each has a worker of its own.

    With a shortlist, the output layer computes only the tokens that may translate the sentences of a batch, so that a
    translation may depend on the other sentences of its batch.
    """

    name = "native"
    batch_rows = 32  # with more, the keys and values of a small model do not fit into the cache of a core

    def __init__(self, model: NativeModel, shortlist: Shortlist | None = None) -> None:
        self.model, self.shortlist = model, shortlist
        self.max_positions = model.shape.max_positions or None
        self._of_thread = threading.local()

    def search(self, sources: list[list[int]], limits: list[int], search: Search) -> list[list[Hypothesis]]:
        limits = [min(limit, MAX_TOKENS) for limit in limits]
        rolls = None
        if search.sampling is not None:
            rolls = [draw_rolls(seed, max(limits)) for seed in search.seeds]
        allowed = self.shortlist.tokens(sources) if self.shortlist else ()
        options = search_options(search, self.model.shape.vocab)
        try:
            return self._worker().translate(sources, options, limits, rolls=rolls, shortlist=allowed)
        except FloatingPointError:
            raise not_finite() from None

    def _worker(self) -> Worker:
        if not hasattr(self._of_thread, "worker"):
            self._of_thread.worker = Worker(self.model)
        worker: Worker = self._of_thread.worker
        return worker


def search_options(search: Search, vocab: int) -> SearchOptions:
    """Return a search as the native engine takes it."""
    sampling = search.sampling or Sampling()
    return SearchOptions(
        beam=search.beam if search.sampling is None else 1,
        sos=SOS,
        eos=EOS,
        min_length=min(search.min_length, MAX_TOKENS),  # more has the same effect
        no_repeat_ngram=min(search.no_repeat_ngram, MAX_TOKENS),
        length_penalty=search.alpha,
        temperature=sampling.temperature,
        top_k=min(sampling.top_k, vocab),
        top_p=sampling.top_p,
    )


def draw_rolls(seed: int, count: int) -> list[float]:
    """Return the random numbers by which `decoding.sampling.sample` chooses the first `count` tokens."""
    stream = random.Random(seed)
    return [stream.random() for _ in range(count)]


class TorchEngine:
    """Any encoder–decoder model in PyTorch, on its device."""

    name = "torch"
    batch_rows = 128

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.max_positions: int | None = model.max_positions  # type: ignore[assignment]

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    def search(self, sources: list[list[int]], limits: list[int], search: Search) -> list[list[Hypothesis]]:
        from glassformer.data.batching import pad_rows
        from glassformer.decoding.beam import beam_search
        from glassformer.decoding.constraints import combine, min_length, no_repeated_ngram
        from glassformer.decoding.greedy import greedy
        from glassformer.decoding.sampling import sample

        source_BS = pad_rows(sources).to(self.device)
        constraint = min_length(search.min_length, EOS)
        if search.no_repeat_ngram:
            constraint = combine(no_repeated_ngram(search.no_repeat_ngram), constraint)
        model: Any = self.model
        shared: dict[str, Any] = {"limits": limits, "sos": SOS, "eos": EOS, "constraint": constraint}
        if search.sampling is not None:
            return [[found] for found in sample(model, source_BS, search.sampling, seeds=list(search.seeds), **shared)]
        if search.beam > 1:
            return beam_search(model, source_BS, beam=search.beam, alpha=search.alpha, **shared)
        return [[found] for found in greedy(model, source_BS, **shared)]


def engine_of(settings: Any) -> tuple[str, str]:
    """Return the name of the engine that runs a model on this machine by default, and the reason.

    Args:
        settings: of the model, `Settings.model`.
    """
    if reason := unsupported(settings):
        return TorchEngine.name, reason
    if machine.may_have_gpu() and (device := machine.device()) != "cpu":
        return TorchEngine.name, f"the device is {device}"
    try:
        return NativeEngine.name, f"instruction set: {library().gf_instruction_set().decode()}"
    except Unavailable as reason:
        return TorchEngine.name, str(reason)


def native_engine_of(model: nn.Module, settings: Any, vocab: int) -> NativeEngine | None:
    """Return a PyTorch model in the native engine, with a copy of its present weights; None where that cannot run.

    Args:
        settings: of the model, `Settings.model`.
    """
    from glassformer.nn.probe import named_weights

    weights = {name: tensor.detach() for name, tensor in named_weights(model)}
    # A sharded model has empty matrices: each is gathered when it is used.
    if any(weight.device.type != "cpu" or not weight.numel() for weight in weights.values()):
        return None
    try:
        return NativeEngine(NativeModel.from_tensors(weights, settings, vocab, "fp32"))
    except Unavailable:
        return None


def load_native(folder: RunFolder, settings: Any, vocab: int, precision: Precision) -> NativeModel:
    """Load the weights of a run into the native engine.

    Raises:
        Unavailable: if it cannot run this model, with the reason.
    """
    if not folder.is_adapter:
        return NativeModel.load(folder.model, settings, vocab, precision)
    from glassformer.inference.run import run_weights  # imports PyTorch, which merges the adapter

    if reason := unsupported(settings):
        raise Unsupported(reason)
    weights = run_weights(folder)
    shapes = {name: tuple(shape) for name, shape in weights.shapes.items()}
    check_sizes(shapes, settings, shape_of(settings, vocab, precision))
    return NativeModel.from_tensors(weights, settings, vocab, precision)
