"""Tagging, many to many: a sentence in, a tag for each of its words out."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import torch
from torch import Tensor

from glassformer.data.batching import Batch
from glassformer.data.conllu import NO_TAG, TaggedSentence, read_conllu
from glassformer.data.parallel_text import expand_paths
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.report import DroppedExample, ExampleSplit, example_split
from glassformer.settings import Paths, Settings
from glassformer.tasks import TEST, TRAIN, VALID, metrics
from glassformer.tasks.labelled import NOT_ASKED, Judged, LabelledData, LabelledTask, refuse_foreign_labels, refuse_none
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.words import check_token_count, encode_words


class TaggingData(LabelledData[TaggedSentence]):
    task_name, what = "tagging", "sentences"

    def read(self, paths: Paths, split: str) -> tuple[list[TaggedSentence], list[DroppedExample]]:
        kept, bad = read_tagged(paths)
        if split != TRAIN:
            return kept, bad
        kept, long = self.too_long(kept)
        return kept, [*bad, *long]

    def account(self, examples: list[TaggedSentence], bad: list[DroppedExample]) -> ExampleSplit:
        words = sum(len(example.words) for example in examples)
        tags = chain.from_iterable(example.tags for example in examples)
        return example_split(len(examples), bad, facts={"words": words}, labels=tags)

    @staticmethod
    def labels_of(example: TaggedSentence) -> Iterable[str]:
        return example.tags

    def task(self, tokenizer: Tokenizer, settings: Settings, tell: ProgressCallback = no_progress) -> TaggingTask:
        return TaggingTask(self.splits, self.labels, tokenizer, settings)


class TaggingTask(LabelledTask[TaggedSentence]):
    """The tag is read at a word's last subword: there a reader from the left has seen all of the word, and in many
    languages the ending tells most. Scored by the share of words whose tag is right.
    """

    def __init__(
        self, splits: dict[str, list[TaggedSentence]], labels: list[str], tokenizer: Tokenizer, settings: Settings
    ) -> None:
        self.last: dict[str, list[list[int]]] = {}  # of each split, where the words of every sentence end
        super().__init__(splits, labels, tokenizer, settings)

    @classmethod
    def of_files(cls, paths: Paths, labels: list[str], tokenizer: Tokenizer, settings: Settings) -> TaggingTask:
        """A held-out set alone, for a model that is there already."""
        examples, _ = read_tagged(paths)
        refuse_none(examples, paths)
        refuse_foreign_labels(examples, labels, TaggingData.labels_of)
        return cls({TEST: examples}, labels, tokenizer, settings)

    def encoded(self, examples: list[TaggedSentence], split: str) -> list[list[int]]:
        rows = encode_words([example.words for example in examples], self.tokenizer)
        for example, row in zip(examples, rows, strict=True):
            check_token_count(len(row.ids), self.most, example.place)
        self.last[split] = [[len(self.before) + at for at in row.last] for row in rows]
        return [row.ids for row in rows]

    def targets(self, batch: Batch, split: str) -> Tensor:
        target_BS = torch.full(batch.source_BS.shape, NOT_ASKED)
        for i, row in enumerate(batch.rows):
            tags = self.splits[split][row].tags
            target_BS[i, self.last[split][row]] = torch.tensor([self.numbers[tag] for tag in tags])
        return target_BS

    def scores(self, shares: list[Judged], *, split: str = VALID) -> dict[str, float]:
        predicted = [label for share in shares for label in share.predicted]
        right = [label for share in shares for label in share.right]
        return {
            "loss": sum(share.loss for share in shares) / len(right),
            "accuracy": metrics.accuracy(predicted, right),
        }


def read_tagged(paths: Paths) -> tuple[list[TaggedSentence], list[DroppedExample]]:
    """The sentences, and those in which a word has no tag."""
    every = list(read_conllu(expand_paths(paths)))
    kept = [example for example in every if NO_TAG not in example.tags]
    bad = [
        DroppedExample("a word without a tag", example.place, example.text)
        for example in every
        if NO_TAG in example.tags
    ]
    return kept, bad
