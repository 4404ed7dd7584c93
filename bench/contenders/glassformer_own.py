"""Glassformer itself, by the road that its users take: task, batches and optimizer; run folder, translator, workers."""

from __future__ import annotations

from importlib.metadata import version as installed
from pathlib import Path

import common
import torch

import glassformer as gf
from glassformer.run import build_model
from glassformer.settings import Settings, nest, resolve
from glassformer.text.batching import BEGINNING, Batch, PairBatches
from glassformer.training.optim import FlatAdam
from glassformer.workers import translate_stream


def settings(size: str, vocab: int) -> Settings:
    s = common.SIZES[size]
    given = {f"model.{name}": value for name, value in s.items()}
    training = {
        "steps": 1000,
        "batch_tokens": 4096,
        "lr": common.LR,
        "warmup": 1,
        "validate_every": 1000,
        "checkpoint_every": 1000,
        "patience": 0,
    }
    given |= {f"train.{name}": value for name, value in training.items()}
    return resolve(nest(given | {"data.train": ["a", "b"], "tokenizer.vocab": vocab}))


class Trainer:
    """The very loss and update of the trainer, over the batches that it would draw."""

    def __init__(self, size: str, vocab: int) -> None:
        from glassformer.tasks.translation import TranslationTask

        self.settings = settings(size, vocab)
        self.model = build_model(self.settings, vocab).train()
        self.optimizer = FlatAdam(self.model)
        self.task = TranslationTask.__new__(TranslationTask)
        self.task.settings = self.settings

    def batches(self, pairs, count: int):
        drawn = PairBatches(pairs, self.settings.train.batch_tokens)
        epoch = drawn.epoch(1, 0)
        by_length = sorted(epoch, key=lambda rows: len(pairs[rows[0]][1]))
        chosen = [by_length[int((k + 0.5) * len(by_length) / count)] for k in range(count)]
        self._drawn = [drawn.batch(rows, BEGINNING) for rows in chosen]
        return [(b.source_BS.tolist(), b.target_in_BT.tolist(), b.target_out_BT.tolist()) for b in self._drawn]

    def prepare(self, batch) -> Batch:
        return self._drawn.pop(0)

    def step(self, batch: Batch) -> float:
        loss, count = self.task.loss(self.model, batch)
        loss.backward()
        self.optimizer.update(lr=common.LR, count=count, clip=1.0)
        return float(loss.detach()) / count


class Decoder:
    def __init__(self, folder: Path, precision: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.translator, self.workers = gf.load(folder / "glassformer", precision=precision), threads

    def translate(self, batches, beam: int, length: int) -> list[str]:
        # Random weights write loops; nobody else decodes those again.
        limits = {"min_length": length, "max_length": length, "guard": False}
        self.translator.settings = self.translator.settings.model_copy(update=limits)
        self.translator.max_sentences = len(batches[0])
        lines = [self.translator.tokenizer.decode(ids) for batch in batches for ids in batch]
        return [t.text for t in translate_stream(self.translator, lines, workers=self.workers, beam=beam)]


def version() -> str:
    return f"glassformer {installed('glassformer')}, torch {torch.__version__}"
