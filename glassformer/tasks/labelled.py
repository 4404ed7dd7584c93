"""Shared by classification and tagging: data, task and output of examples with labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.data.batching import AnyBatch, Batch, PairBatches
from glassformer.data.report import DroppedExample
from glassformer.data.store import IdList
from glassformer.errors import UserError
from glassformer.inference.predictor import refuse_empty
from glassformer.models import FAMILIES
from glassformer.settings import Paths, Settings
from glassformer.tasks import metrics
from glassformer.tasks.examples import BatchedTask, Example, ExamplesData
from glassformer.tasks.spec import TRAIN, VALID, PredictRequest
from glassformer.text.tokenizer import SOS, Tokenizer

IGNORE = -1  # target of a position that has no label
LINES_PER_BATCH = 1024


class LabelledData(ExamplesData[Example]):
    """Examples with labels."""

    metric_name = "accuracy"

    def check(self) -> None:
        for split in self.splits:
            if split != TRAIN:
                refuse_none(self.splits[split], getattr(self.settings, split))
        self.labels = sorted({label for example in self.splits[TRAIN] for label in self.labels_of(example)})
        refuse_one_label(self.labels, self.settings.train)
        for examples in self.splits.values():
            refuse_unknown_labels(examples, self.labels, self.labels_of)

    @staticmethod
    def labels_of(example: Example) -> Iterable[str]:
        raise NotImplementedError

    def drop_long(self, examples: list[Example]) -> tuple[list[Example], list[DroppedExample]]:
        """Return the examples within data.max_words and data.max_characters, and the others."""
        kept, dropped = [], []
        for example in examples:
            words, characters = example.text.count(" ") + 1, len(example.text)
            if words > self.settings.max_words or characters > self.settings.max_characters:
                dropped.append(
                    DroppedExample(f"longer than {self.settings.max_words} words", example.place, example.text)
                )
            else:
                kept.append(example)
        return kept, dropped


def refuse_none(examples: Sequence[Any], paths: Paths) -> None:
    if not examples:
        hint = "give a file in the format of the training data"
        raise UserError("There are no labelled examples to evaluate on.", where=str(paths), hint=hint)


def refuse_one_label(labels: Sequence[str], paths: Paths) -> None:
    if len(labels) < 2:
        found = f"only one label, '{labels[0]}'" if labels else "no labelled examples"
        raise UserError(
            f"The training data has {found}.", where=str(paths), hint="give examples of at least two labels"
        )


def refuse_unknown_labels(
    examples: Sequence[Any], labels: Sequence[str], labels_of: Callable[[Any], Iterable[str]]
) -> None:
    known = set(labels)
    for example in examples:
        for label in labels_of(example):
            if label not in known:
                raise UserError(
                    f"The label '{label}' does not occur in the training data, which has {', '.join(labels[:12])}.",
                    where=example.place,
                    hint="remove such examples, or add some to the training data "
                    "(are the columns in the same order as there?)",
                )


class LabelShard(NamedTuple):
    """The result of a shard of the held-out examples."""

    loss: float
    predicted: list[int]
    right: list[int]


class LabelTask(BatchedTask[AnyBatch]):
    """Cross-entropy of the label; scored by accuracy and macro F1."""

    metric = "accuracy"
    signature = ""
    settings: Settings

    def logits(self, model: Any, batch: AnyBatch, split: str) -> tuple[Tensor, Tensor]:
        """Return logits, N×L, and targets, N, of all examples or positions that have a label."""
        raise NotImplementedError

    def loss(self, model: Any, batch: AnyBatch) -> tuple[Tensor, int]:
        logits_NL, target_N = self.logits(model, batch, TRAIN)
        smoothing = self.settings.train.label_smoothing
        return F.cross_entropy(logits_NL, target_N, label_smoothing=smoothing, reduction="sum"), len(target_N)

    @torch.inference_mode()
    def evaluate_shard(
        self, model: Any, index: int, count: int, *, split: str = VALID, final: bool = False
    ) -> LabelShard:
        loss, predicted, right = 0.0, list[int](), list[int]()
        for batch in self.shard_of(split, index, count):
            logits_NL, target_N = self.logits(model, batch, split)
            loss += float(F.cross_entropy(logits_NL, target_N, reduction="sum"))
            predicted += logits_NL.argmax(dim=1).tolist()
            right += target_N.tolist()
        return LabelShard(loss, predicted, right)

    def scores(self, shards: list[LabelShard], *, split: str = VALID) -> dict[str, float]:
        predicted = [label for shard in shards for label in shard.predicted]
        right = [label for shard in shards for label in shard.right]
        return {
            "loss": sum(shard.loss for shard in shards) / len(right),
            "accuracy": metrics.accuracy(predicted, right),
            "macro_f1": metrics.macro_f1(predicted, right),
        }


class LabelledTask(LabelTask[Batch], Generic[Example]):
    """A task on texts with labels."""

    def __init__(
        self, splits: dict[str, list[Example]], labels: list[str], tokenizer: Tokenizer, settings: Settings
    ) -> None:
        self.splits: dict[str, list[Example]] = splits
        self.settings, self.tokenizer = settings, tokenizer
        self.prefix: list[int] = [SOS] if FAMILIES[settings.model.family].reads_sos else []
        self.label_ids = {label: number for number, label in enumerate(labels)}
        # A text is a pair without a target: batches of similar length, in an order that can be resumed.
        self.inputs = {
            split: PairBatches(self._pairs(examples, split), settings.train.batch_tokens)
            for split, examples in splits.items()
        }

    def _pairs(self, examples: list[Example], split: str) -> list[tuple[IdList, IdList]]:
        return [(self.prefix + ids, ()) for ids in self.encode(examples, split)]

    def encode(self, examples: list[Example], split: str) -> list[list[int]]:
        """Return the tokens of every example, truncated to the maximum length of the model."""
        raise NotImplementedError

    @property
    def max_tokens(self) -> int | None:
        """Tokens of an example that the model can read, without special tokens; None for any number."""
        longest = self.settings.model.max_length
        return None if longest is None else longest - len(self.prefix) - 1

    def targets(self, batch: Batch, split: str) -> Tensor:
        """Return the label ids for every logit of the model; `IGNORE` where there is no label."""
        raise NotImplementedError

    def locations(self, batch: Batch) -> list[str]:
        return [self.splits[TRAIN][row].place for row in batch.rows]

    def logits(self, model: Any, batch: Batch, split: str) -> tuple[Tensor, Tensor]:
        device = next(model.parameters()).device
        logits_NL = model(batch.source_BS.to(device)).flatten(0, -2).float()
        target_N = self.targets(batch, split).flatten().to(device)
        labelled_N = (target_N != IGNORE).nonzero()[:, 0]
        return logits_NL[labelled_N], target_N[labelled_N]


def predict_lines(predictor: Any, request: PredictRequest, show: Callable[[str, Any, bool], str]) -> Iterator[str]:
    """Yield one line per text, and a blank line for a blank text."""
    texts, is_first = request.lines(), True
    while batch := list(islice(texts, LINES_PER_BATCH)):
        if is_first and len(batch) == 1:
            refuse_empty(batch)
        is_first = False
        results = iter(predictor.predict([text for text in batch if text.strip()]))
        for text in batch:
            yield (show(text, next(results), request.as_json) if text.strip() else "") + "\n"
