"""Word vectors from context: a language model in each direction, on lines that each stand for themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.data.batching import Batch, PairBatches, Position
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.settings import Settings
from glassformer.tasks import TRAIN, VALID
from glassformer.tasks.language_model import LanguageModelData, Line
from glassformer.text.tokenizer import PAD, SOS, Tokenizer


class WordVectorsData(LanguageModelData):
    """Lines of text. A line longer than `data.sequence` is several."""

    task_name = "word_vectors"

    def task(self, tokenizer: Tokenizer, settings: Settings, tell: ProgressCallback = no_progress) -> WordVectorsTask:
        return WordVectorsTask(self.splits, tokenizer, settings)


class Judged(NamedTuple):
    """Losses of both directions, summed, and how many tokens each predicted."""

    forwards: float
    backwards: float
    tokens: int


class WordVectorsTask:
    """Cross-entropy of each token given those before it, and given those behind it."""

    metric = "likelihood"

    def __init__(self, splits: dict[str, list[Line]], tokenizer: Tokenizer, settings: Settings) -> None:
        self.settings, self.tokenizer = settings, tokenizer
        self.places: dict[str, list[str]] = {}
        self.inputs: dict[str, PairBatches] = {}
        for split, lines in splits.items():
            rows = list(cut(lines, tokenizer, settings.data.sequence))
            self.places[split] = [place for _, place in rows]
            # A pair without a target; <eos> is put behind it there.
            self.inputs[split] = PairBatches([([SOS, *ids], ()) for ids, _ in rows], settings.train.batch_tokens)

    @property
    def signature(self) -> str:
        return f"mean log-probability (nats) a token ({self.tokenizer.kind}), of both directions"

    def batches(self, seed: int, position: Position) -> Iterator[Batch]:
        return self.inputs[TRAIN].forever(seed, position)

    def loss(self, model: Any, batch: Batch) -> tuple[Tensor, int]:
        forwards, backwards, count = self._losses(model, batch, self.settings.train.label_smoothing)
        return forwards + backwards, 2 * count

    def part(self, batch: Batch, number: int, of: int) -> Batch | None:
        rows = batch.rows[number::of]
        return self.inputs[TRAIN].batch(rows, batch.next) if rows else None

    def where(self, batch: Batch) -> list[str]:
        return [self.places[TRAIN][row] for row in batch.rows]

    @torch.inference_mode()
    def judge(self, model: Any, number: int, of: int, *, split: str = VALID, final: bool = False) -> Judged:
        inputs = self.inputs[split]
        found = [self._losses(model, inputs.batch(rows), 0.0) for rows in inputs.in_order()[number::of]]
        return Judged(
            sum(float(forwards) for forwards, _, _ in found),
            sum(float(backwards) for _, backwards, _ in found),
            sum(count for _, _, count in found),
        )

    def scores(self, shares: list[Judged], *, split: str = VALID) -> dict[str, float]:
        tokens = sum(share.tokens for share in shares)
        forwards = sum(share.forwards for share in shares) / tokens
        backwards = sum(share.backwards for share in shares) / tokens
        loss = (forwards + backwards) / 2
        return {
            "loss": loss,
            "likelihood": -loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "forwards_loss": forwards,
            "backwards_loss": backwards,
        }

    def _losses(self, model: Any, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor, int]:
        """Of `<sos> w₁ … wₙ <eos>`: each token from those before it, and each from those behind it."""
        tokens_BT = batch.source_BS.to(next(model.parameters()).device)
        there_BTD, back_BTD = model.states(tokens_BT)
        left_N, right_N = tokens_BT[:, :-1].flatten(), tokens_BT[:, 1:].flatten()
        real_N = (right_N != PAD).nonzero()[:, 0]
        after_ND = there_BTD[:, :-1].flatten(0, 1).index_select(0, real_N)
        before_ND = back_BTD[:, 1:].flatten(0, 1).index_select(0, real_N)
        forwards = model.output.loss(after_ND, right_N[real_N], smoothing)
        return forwards, model.output.loss(before_ND, left_N[real_N], smoothing), len(real_N)


def cut(lines: list[Line], tokenizer: Tokenizer, sequence: int) -> Iterator[tuple[list[int], str]]:
    """The tokens of every line that has some, in pieces of at most so many, with its place."""
    for line, ids in zip(lines, tokenizer.encode_batch([line.text for line in lines]), strict=True):
        for first in range(0, len(ids), sequence):
            yield ids[first : first + sequence], line.place
