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

from glassformer.data.batching import Batch
from glassformer.decoding import beam as beam_module
from glassformer.decoding import greedy as greedy_module
from glassformer.inference.translator import Translator, load_translator
from glassformer.inference.workers import translate_stream
from glassformer.models import transformer
from glassformer.nn import attention, dropout, embedding, masks
from glassformer.nn.linear import Linear
from glassformer.nn.loss import smoothed_cross_entropy_plain

ROUNDS = 3
Work = Callable[[], float]  # returns how much was done: the result is time per unit


def measure(data: Path, vocab: int) -> dict[str, float]:
    """How many times faster each trick makes what it is for."""
    tricks = {**_training(data, common.SIZES["tiny"], vocab), **_decoding(data)}
    return {name: _gain(fast, plain) for name, (fast, plain) in tricks.items()}


def _gain(fast: Work, plain: Work) -> float:
    ratios = []
    fast(), plain()
    for _ in range(ROUNDS):
        ours, theirs = _seconds_per_unit(fast), _seconds_per_unit(plain)
        ratios.append(theirs / ours)
    return statistics.median(ratios)


def _seconds_per_unit(work: Work) -> float:
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
                part(x)
        return 1000

    return {
        "batches of one source length (tiny, per step)": (ours, steps(trainer, sorted_only)),
        "dropout from random bytes (tiny, per step)": (ours, _with(dropout.Dropout, "forward", _plain_dropout, ours)),
        "output layer and loss in chunks (tiny, per step)": (
            ours,
            _with(embedding, "smoothed_cross_entropy", smoothed_cross_entropy_plain, ours),
        ),
        "one flat fused Adam (tiny, per step)": (ours, steps(_ManyTensors(size, vocab), exact)),
        "fused attention (tiny, per step)": (ours, _with(attention, "attend", _plain_attend, ours)),
        "query, key and value in one matmul (base, that matmul, 32 rows)": (
            lambda: project([packed]),
            lambda: project(apart),
        ),
    }


def _plain_dropout(self: dropout.Dropout, x: Tensor) -> Tensor:
    return F.dropout(x, self.rate, self.training)


def _plain_attend(query: Tensor, key: Tensor, value: Tensor, mask: masks.Mask | None = None, *_, **__) -> Tensor:
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return (scores if mask is None else scores + mask.values).softmax(dim=-1) @ value


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
    run = data / "glassformer"
    native = {precision: load_translator(run, precision=precision, engine="native") for precision in ("fp32", "int8")}
    in_torch = load_translator(run, engine="torch")
    sources = sorted((source for source, _ in common.load(data, "test")[:64]), key=len)
    lines = [in_torch.tokenizer.decode(ids) for ids in sources]
    for translator in (*native.values(), in_torch):
        translator.max_sentences = 32

    def translate(translator: Translator, beam: int) -> Work:
        def work() -> float:
            torch.set_num_threads(1)
            return len(translator.translate(lines, beam=beam))

        return work

    def all_cores(workers: int) -> Work:
        return lambda: len(list(translate_stream(native["int8"], 4 * lines, workers=workers, beam=4)))

    beam, fp32, int8 = (translate(translator, 4) for translator in (in_torch, native["fp32"], native["int8"]))

    greedy = translate(in_torch, 1)

    def reordering() -> float:
        with _instead(in_torch.engine, "model", _Reordering(in_torch.model)):
            return beam()

    return {
        "the native engine (fp32 beam 4, batch 32, one core)": (fp32, beam),
        "8-bit integers (native, beam 4, batch 32, one core)": (int8, fp32),
        "one worker per core (native, int8 beam 4, batch 32)": (all_cores(2), all_cores(1)),
        "beams share keys, none is moved (PyTorch, beam 4, batch 32)": (beam, reordering),
        "the best of a step by blocks (PyTorch, beam 4, batch 32)": (
            beam,
            _with(beam_module, "top_tokens", _topk, beam),
        ),
        "the most probable token by blocks (PyTorch, greedy, batch 32)": (
            greedy,
            _with(greedy_module, "argmax_tokens", lambda logits_NV: logits_NV.argmax(dim=1), greedy),
        ),
    }


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
