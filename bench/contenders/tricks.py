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
from glassformer.inference.workers import translate_stream
from glassformer.nn import attention, dropout, embedding
from glassformer.nn.linear import Linear
from glassformer.nn.loss import smoothed_cross_entropy_plain

ROUNDS = 3
Work = Callable[[], float]  # returns the number of units; the time per unit is compared


def measure(data: Path, vocab: int) -> dict[str, float]:
    """Return the speedup of each optimization."""
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


def _plain_attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, probe=None) -> Tensor:
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return (scores if mask is None else scores + mask).softmax(dim=-1) @ value


class _ManyTensors(own.Trainer):
    """A trainer with PyTorch's default Adam."""

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
    """Compare the native engine with PyTorch, int8 with fp32, and one worker per core with one worker."""
    run = data / "glassformer"
    translators = {
        "native fp32": gf.load(run),
        "native int8": gf.load(run, precision="int8"),
        "torch fp32": gf.load(run, engine="torch"),
    }
    sources = sorted((source for source, _ in common.load(data, "test")[:64]), key=len)
    limits = {"min_length": 30, "max_length": 30, "guard": False}
    for translator in translators.values():
        translator.settings = translator.settings.model_copy(update=limits)
        translator.max_sentences = 32
    lines = [translators["native fp32"].tokenizer.decode(ids) for ids in sources]

    def translate(name: str, beam: int, workers: int = 1) -> Work:
        def work() -> float:
            torch.set_num_threads(1)
            return len(list(translate_stream(translators[name], lines, workers=workers, beam=beam)))

        return work

    return {
        "native engine instead of PyTorch (fp32 greedy, batch 32, one thread)": (
            translate("native fp32", beam=1),
            translate("torch fp32", beam=1),
        ),
        "native engine instead of PyTorch (fp32 beam 4, batch 32, one thread)": (
            translate("native fp32", beam=4),
            translate("torch fp32", beam=4),
        ),
        "int8 instead of fp32 (native, greedy, batch 32, one thread)": (
            translate("native int8", beam=1),
            translate("native fp32", beam=1),
        ),
        "one worker per core (native, int8 beam 4, batch 32, two cores)": (
            translate("native int8", beam=4, workers=2),
            translate("native int8", beam=4),
        ),
    }


def version() -> str:
    return own.version()
