"""Training in Glassformer, through its own classes: task, batches, optimizer and trainer."""

from __future__ import annotations

import tempfile
import time
from importlib.metadata import version as installed

import common
import torch

from glassformer.data.batching import BEGINNING, Batch, PairBatches
from glassformer.inference.run import build_model
from glassformer.inference.run_folder import RunFolder
from glassformer.settings import Settings, nest, resolve
from glassformer.tasks.translation import TranslationTask
from glassformer.training.events import Event, Progress
from glassformer.training.optim import FlatOptimizer
from glassformer.training.trainer import PROGRESS_EVERY
from glassformer.training.trainer import Trainer as Loop


def settings(size: dict, vocab: int, steps: int = 1000) -> Settings:
    given = {f"model.{name}": value for name, value in size.items()}
    training = {
        "steps": steps,
        "batch_tokens": 4096,
        "lr": common.LR,
        "warmup": 1,
        "validate_every": steps,
        "checkpoint_every": steps,
        "patience": 0,
    }
    given |= {f"train.{name}": value for name, value in training.items()}
    return resolve(nest(given | {"data.train": ["a", "b"], "tokenizer.vocab": vocab}))


class Task(TranslationTask):
    """Translation of pairs of token ids."""

    def __init__(self, pairs, settings: Settings) -> None:
        self.settings, self.metric = settings, settings.train.metric
        self.train = PairBatches(pairs, settings.train.batch_tokens)

    def evaluate_shard(self, model, index: int, count: int, *, split: str = "valid", final: bool = False) -> None:
        """Do nothing: the measured time ends before."""

    def scores(self, shards, *, split: str = "valid") -> dict[str, float]:
        return {"loss": 0.0, self.metric: 0.0}


class Trainer:
    """The loss and update of the trainer, over the same batches."""

    def __init__(self, size: dict, vocab: int) -> None:
        torch.manual_seed(0)
        self.settings = settings(size, vocab)
        self.model = build_model(self.settings, vocab).train()
        self.optimizer = FlatOptimizer(self.model)
        self.task = Task([([3], [3])], self.settings)

    def batches(self, pairs, count: int):
        drawn = PairBatches(pairs, self.settings.train.batch_tokens)
        by_length = sorted(drawn.epoch(1, 0), key=lambda rows: len(pairs[rows[0]][1]))
        chosen = [by_length[int((k + 0.5) * len(by_length) / count)] for k in range(count)]
        batches = [drawn.batch(rows, BEGINNING) for rows in chosen]
        return [(b.source_BS.tolist(), b.target_in_BT.tolist(), b.target_out_BT.tolist()) for b in batches]

    def prepare(self, batch) -> Batch:
        return Batch(*(torch.tensor(side) for side in batch), rows=[])

    def step(self, batch: Batch) -> float:
        loss, count = self.task.loss(self.model, batch)
        loss.backward()
        self.optimizer.step(lr=common.LR, count=count, clip=1.0)
        return float(loss.detach()) / count


def loop(size: dict, vocab: int, pairs, count: int) -> dict[str, float]:
    """Measure the step alone before and after the loop, so that a machine that slows down makes no difference."""
    count = -(-count // PROGRESS_EVERY) * PROGRESS_EVERY
    bare = Trainer(size, vocab)
    task = Task(pairs, settings(size, vocab, steps=PROGRESS_EVERY + count))
    drawn = task.batches(task.settings.train.seed, BEGINNING)
    batches = [next(drawn) for _ in range(PROGRESS_EVERY + count)][PROGRESS_EVERY:]
    arrivals: dict[int, float] = {}

    def listen(event: Event) -> None:
        if isinstance(event, Progress):
            arrivals[event.step] = time.perf_counter()

    def bare_seconds() -> float:
        began = time.perf_counter()
        for batch in batches:
            bare.step(batch)
        return time.perf_counter() - began

    with tempfile.TemporaryDirectory() as folder:
        before = bare_seconds()
        model = build_model(task.settings, vocab)
        Loop(model, task, task.settings.train, RunFolder(folder), listen).train()
        alone = (before + bare_seconds()) / 2
    seconds = arrivals[PROGRESS_EVERY + count] - arrivals[PROGRESS_EVERY]
    tokens = sum(batch.target_tokens for batch in batches)
    return {"tokens_per_second": tokens / seconds, "share_of_bare_step": alone / seconds, "seconds": seconds}


def version() -> str:
    return f"glassformer {installed('glassformer')}"
