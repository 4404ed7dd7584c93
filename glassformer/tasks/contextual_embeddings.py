"""Contextual word embeddings (ELMo): a language model in each direction, on independent lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.data.batching import Batch, PairBatches
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.errors import UserError
from glassformer.inference.embeddings import ContextualEmbedder
from glassformer.inference.run import Run
from glassformer.planning.sizes import RUNNING_TEXT, TaskSizes
from glassformer.settings import Paths, Settings
from glassformer.tasks.examples import BatchedTask, likelihood_scores
from glassformer.tasks.language_model import LanguageModelData, Line, read_text
from glassformer.tasks.spec import TEST, TRAIN, VALID, HeldOut, PredictRequest, TaskSpec
from glassformer.text.tokenizer import PAD, SOS, Tokenizer


class ContextualEmbeddingsData(LanguageModelData):
    """Lines of text. A line longer than `data.sequence` is split."""

    name = "contextual_embeddings"
    sizes = TaskSizes("characters", {"elmo": RUNNING_TEXT})

    def task(
        self, tokenizer: Tokenizer, settings: Settings, progress: ProgressCallback = no_progress
    ) -> ContextualEmbeddingsTask:
        return ContextualEmbeddingsTask(self.splits, tokenizer, settings)


class BidirectionalShard(NamedTuple):
    """Summed losses of both directions, and the number of tokens that each predicted."""

    forwards: float
    backwards: float
    tokens: int


class ContextualEmbeddingsTask(BatchedTask[Batch]):
    """Cross-entropy of each token given the tokens before it, plus that given the tokens after it."""

    metric = "likelihood"

    def __init__(self, splits: dict[str, list[Line]], tokenizer: Tokenizer, settings: Settings) -> None:
        self.settings, self.tokenizer = settings, tokenizer
        self.places: dict[str, list[str]] = {}
        self.inputs = {}
        for split, lines in splits.items():
            rows = list(split_lines(lines, tokenizer, settings.data.sequence))
            self.places[split] = [place for _, place in rows]
            # A text is a pair without a target; PairBatches appends <eos>.
            self.inputs[split] = PairBatches([([SOS, *ids], ()) for ids, _ in rows], settings.train.batch_tokens)

    @property
    def signature(self) -> str:
        return f"mean log-probability (nats) per token ({self.tokenizer.kind}), mean of both directions"

    def loss(self, model: Any, batch: Batch) -> tuple[Tensor, int]:
        forwards, backwards, count = self._losses(model, batch, self.settings.train.label_smoothing)
        return forwards + backwards, 2 * count

    def locations(self, batch: Batch) -> list[str]:
        return [self.places[TRAIN][row] for row in batch.rows]

    @torch.inference_mode()
    def evaluate_shard(
        self, model: Any, index: int, count: int, *, split: str = VALID, final: bool = False
    ) -> BidirectionalShard:
        found = [self._losses(model, batch, 0.0) for batch in self.shard_of(split, index, count)]
        return BidirectionalShard(
            sum(float(forwards) for forwards, _, _ in found),
            sum(float(backwards) for _, backwards, _ in found),
            sum(count for _, _, count in found),
        )

    def scores(self, shards: list[BidirectionalShard], *, split: str = VALID) -> dict[str, float]:
        tokens = sum(shard.tokens for shard in shards)
        forwards = sum(shard.forwards for shard in shards) / tokens
        backwards = sum(shard.backwards for shard in shards) / tokens
        directions = {"forwards_loss": forwards, "backwards_loss": backwards}
        return likelihood_scores((forwards + backwards) / 2) | directions

    def _losses(self, model: Any, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor, int]:
        """Return the losses of both directions over `<sos> w₁ … wₙ <eos>`, and the number of predicted tokens."""
        tokens_BT = batch.source_BS.to(next(model.parameters()).device)
        forward_BTD, backward_BTD = model.states(tokens_BT)
        left_N, right_N = tokens_BT[:, :-1].flatten(), tokens_BT[:, 1:].flatten()
        real_N = (right_N != PAD).nonzero()[:, 0]
        after_ND = forward_BTD[:, :-1].flatten(0, 1).index_select(0, real_N)
        before_ND = backward_BTD[:, 1:].flatten(0, 1).index_select(0, real_N)
        forwards = model.output.loss(after_ND, right_N[real_N], smoothing)
        return forwards, model.output.loss(before_ND, left_N[real_N], smoothing), len(real_N)


def split_lines(lines: list[Line], tokenizer: Tokenizer, sequence: int) -> Iterator[tuple[list[int], str]]:
    """Yield the tokens of every line, at most `sequence` at a time, with the location of the line."""
    for line, ids in zip(lines, tokenizer.encode_batch([line.text for line in lines]), strict=True):
        for first in range(0, len(ids), sequence):
            yield ids[first : first + sequence], line.place


def held_out(run: Run, paths: Paths) -> HeldOut:
    lines = read_text(paths)
    return HeldOut(ContextualEmbeddingsTask({TEST: lines}, run.tokenizer, run.settings), len(lines))


def predict(embedder: ContextualEmbedder, request: PredictRequest) -> Iterator[str]:
    """Yield one JSON object per text with its words and their vectors; a blank line for a blank text."""
    if not request.as_json:
        hint = 'add --json, or compare the words of several texts: glassformer explain RUN "…" "…"'
        raise UserError("Embeddings are only printed as JSON.", hint=hint)
    for text in request.lines():
        if text.strip():
            found = embedder.in_context(text)
            vectors = [[round(number, 6) for number in vector] for vector in found.mean().tolist()]
            yield json.dumps({"text": text, "words": found.words, "vectors": vectors}, ensure_ascii=False)
        yield "\n"


SPEC = TaskSpec(
    name="contextual_embeddings",
    families=("elmo",),
    output="vectors",
    predictor=lambda run: ContextualEmbedder(run.model, run.tokenizer),
    data=ContextualEmbeddingsData,
    held_out=held_out,
    predict=predict,
    usage='glassformer explain {run} "…" "…"',
    compare_words=ContextualEmbedder.compare_words,
)
