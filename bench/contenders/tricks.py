"""Each optimized part compared with a plain implementation, alternating in one process."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import common
import glassformer_own as own
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import glassformer as gf
from glassformer.data.batching import Batch
from glassformer.decoding import beam as beam_module
from glassformer.decoding import greedy as greedy_module
from glassformer.inference.workers import translate_stream
from glassformer.models import transformer
from glassformer.nn import attention, dropout, embedding, masks
from glassformer.nn.linear import Linear
from glassformer.nn.loss import smoothed_cross_entropy_plain

ROUNDS = 3
Work = Callable[[], float]  # returns how much was done: what counts is time a unit


def measure(data: Path, vocab: int) -> dict[str, float]:
    """How many times faster each trick makes what it is for."""
    tricks = {**_training(data, common.SIZES["tiny"], vocab), **_decoding(data)}
    return {name: _gain(fast, plain) for name, (fast, plain) in tricks.items()}


def _gain(fast: Work, plain: Work) -> float:
    ratios = []
    fast(), plain()
    for _ in range(ROUNDS):
        ours, theirs = _seconds_a_unit(fast), _seconds_a_unit(plain)
        ratios.append(theirs / ours)
    return statistics.median(ratios)


def _seconds_a_unit(work: Work) -> float:
    began = time.perf_counter()
    done = work()
    return (time.perf_counter() - began) / done


@contextmanager
def _instead(owner: object, name: str, plain: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, plain)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _with(owner: object, name: str, plain: object, work: Work) -> Work:
    def changed() -> float:
        with _instead(owner, name, plain):
            return work()

    return changed


def _training(data: Path, size: dict, vocab: int) -> dict[str, tuple[Work, Work]]:
    trainer, pairs = own.Trainer(size, vocab), common.load(data, "train")
    exact = [trainer.prepare(batch) for batch in trainer.batches(pairs, 4)]
    sorted_only = [trainer.prepare(batch) for batch in common.length_sorted_batches(pairs, 4)]

    def steps(trainer: own.Trainer, batches: list[Batch]) -> Work:
        def work() -> float:
            for batch in batches:
                trainer.step(batch)
            return sum(batch.target_tokens for batch in batches)

        return work

    ours = steps(trainer, exact)
    x, packed, apart = torch.randn(32, 512), Linear(512, 512, parts=3), [Linear(512, 512) for _ in range(3)]

    @torch.inference_mode()
    def project(parts: list[Linear]) -> float:
        for _ in range(1000):
            for part in parts:
                part.product(x)
        return 1000

    return {
        "batches of one source length (tiny, a step)": (ours, steps(trainer, sorted_only)),
        "dropout from random bytes (tiny, a step)": (ours, _with(dropout.Dropout, "forward", _plain_dropout, ours)),
        "output layer and loss in chunks (tiny, a step)": (
            ours,
            _with(embedding, "smoothed_cross_entropy", smoothed_cross_entropy_plain, ours),
        ),
        "one flat fused Adam (tiny, a step)": (ours, steps(_ManyTensors(size, vocab), exact)),
        "fused attention (tiny, a step)": (ours, _with(attention, "attend", _plain_attend, ours)),
        "query, key and value in one matmul (base, that matmul, 32 rows)": (
            lambda: project([packed]),
            lambda: project(apart),
        ),
    }


def _plain_dropout(self: dropout.Dropout, x: Tensor) -> Tensor:
    return F.dropout(x, self.rate, self.training)


def _plain_attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, probe=None) -> Tensor:
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return (scores if mask is None else scores + mask).softmax(dim=-1) @ value


class _ManyTensors(own.Trainer):
    """With Adam as PyTorch gives it by default."""

    def __init__(self, size: dict, vocab: int) -> None:
        super().__init__(size, vocab)
        self.model = own.build_model(self.settings, vocab).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=common.LR, betas=common.BETAS, eps=common.EPSILON)

    def step(self, batch: Batch) -> float:
        self.optimizer.zero_grad()
        loss, count = self.task.loss(self.model, batch)
        (loss / count).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach()) / count


def _decoding(data: Path) -> dict[str, tuple[Work, Work]]:
    translators = {precision: gf.load(data / "glassformer", precision=precision) for precision in ("fp32", "int8")}
    sources = sorted((source for source, _ in common.load(data, "test")[:64]), key=len)
    limits = {"min_length": 30, "max_length": 30, "guard": False}
    for translator in translators.values():
        translator.settings = translator.settings.model_copy(update=limits)
    lines = [translators["fp32"].tokenizer.decode(ids) for ids in sources]

    def translate(precision: str, beam: int, batch: int, count: int) -> Work:
        translator = translators[precision]

        def work() -> float:
            torch.set_num_threads(1)
            translator.max_sentences = batch
            translator.translate(lines[:count], beam=beam)
            return count

        return work

    def all_cores(workers: int) -> Work:
        def work() -> float:
            torch.set_num_threads(2)
            translators["int8"].max_sentences = 32
            return len(list(translate_stream(translators["int8"], 4 * lines, workers=workers, beam=4)))

        return work

    greedy, beam = translate("fp32", beam=1, batch=32, count=64), translate("int8", beam=4, batch=32, count=64)
    model = translators["int8"].model

    def reordering() -> float:
        with _instead(translators["int8"], "model", _Reordering(model)):
            return beam()

    return {
        "weights laid out by input (fp32 greedy, batch 32)": (greedy, _output_major(translators["fp32"].model, greedy)),
        "8-bit integers (beam 4, batch 32)": (beam, translate("fp32", beam=4, batch=32, count=64)),
        "beams share keys, none is moved (int8 beam 4, batch 32)": (beam, reordering),
        "the best of a step by blocks (int8 beam 4, batch 32)": (beam, _with(beam_module, "top_tokens", _topk, beam)),
        "the likeliest by blocks (fp32 greedy, batch 32)": (
            greedy,
            _with(greedy_module, "argmax_tokens", lambda logits_NV: logits_NV.argmax(dim=1), greedy),
        ),
        "a worker a core, not two threads (int8 beam 4, batch 32)": (all_cores(2), all_cores(1)),
    }


def _output_major(model: nn.Module, work: Work) -> Work:
    """As PyTorch lays weights out."""
    linears = [module for module in model.modules() if isinstance(module, Linear)]
    laid_out = [(linear, linear.weight.data, linear.weight.data.contiguous()) for linear in linears]

    def changed() -> float:
        for linear, _, plain in laid_out:
            linear.weight.data = plain
        with _instead(model.output, "product", model.output._plain):
            done = work()
        for linear, packed, _ in laid_out:
            linear.weight.data = packed
        return done

    return changed


def _topk(logits_NV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    return tuple(logits_NV.topk(count, dim=1))


class _Reordering:
    """The same model as most toolkits drive it: every hypothesis a sentence of its own, moved when it changes place."""

    def __init__(self, model) -> None:
        self.model, self.max_positions, self.parameters = model, model.max_positions, model.parameters
        self.encode, self.step = model.encode, model.step

    def start(self, memory, copies: int = 1):
        mask = None if memory.mask is None else masks.Mask(memory.mask.values.repeat_interleave(copies, dim=0))
        return self.model.start(transformer.Memory(memory.hidden_BSD.repeat_interleave(copies, dim=0), mask))


def version() -> str:
    return own.version()
