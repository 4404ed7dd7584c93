"""Classification, many to one: a text in, one of a few labels out."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from glassformer.data.batching import Batch
from glassformer.data.labelled import COLUMN_NAMES, LabelledText, find_label_column, read_labelled
from glassformer.data.parallel_text import expand_paths
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.report import DroppedExample, ExampleSplit, example_split
from glassformer.settings import Paths, Settings
from glassformer.tasks import TEST, TRAIN, VALID
from glassformer.tasks.labelled import (
    Judged,
    LabelledData,
    LabelledTask,
    label_scores,
    refuse_foreign_labels,
    refuse_none,
)
from glassformer.text.tokenizer import Tokenizer


class ClassificationData(LabelledData[LabelledText]):
    task_name, what = "classification", "texts"

    def read(self, paths: Paths, split: str) -> tuple[list[LabelledText], list[DroppedExample]]:
        files = expand_paths(paths)
        if split == TRAIN:
            self.column = find_label_column(files)
            self.notes.append(f"the labels are in the {COLUMN_NAMES[self.column]} column, the texts in the other")
        kept, bad = read_labelled(files, self.column)
        if split != TRAIN:
            return kept, bad
        kept, long = self.too_long(kept)
        kept, repeated = self._once(kept) if self.settings.drop_duplicates else (kept, [])
        return kept, [*bad, *long, *repeated]

    def _once(self, examples: list[LabelledText]) -> tuple[list[LabelledText], list[DroppedExample]]:
        first: dict[tuple[str, str], LabelledText] = {}
        for example in examples:
            first.setdefault(example[:2], example)
        again = [example for example in examples if first[example[:2]] is not example]
        contrary = len(first) - len({text for text, _ in first})
        if contrary:
            self.notes.append(f"{contrary:,} texts of train stand there with another label too")
        bad = [DroppedExample("text and label occurred before", example.place, example.text) for example in again]
        return list(first.values()), bad

    def account(self, examples: list[LabelledText], bad: list[DroppedExample]) -> ExampleSplit:
        words = sum(example.text.count(" ") + 1 for example in examples)
        return example_split(len(examples), bad, facts={"words": words}, labels=(example.label for example in examples))

    @staticmethod
    def labels_of(example: LabelledText) -> Iterable[str]:
        return (example.label,)

    def task(
        self, tokenizer: Tokenizer, settings: Settings, tell: ProgressCallback = no_progress
    ) -> ClassificationTask:
        return ClassificationTask(self.splits, self.labels, tokenizer, settings)


class ClassificationTask(LabelledTask[LabelledText]):
    """Scored by accuracy, and by F1 as the mean over the labels."""

    @classmethod
    def of_files(cls, paths: Paths, labels: list[str], tokenizer: Tokenizer, settings: Settings) -> ClassificationTask:
        """A held-out set alone, for a model that is there already. Its labels tell which column they stand in."""
        files = expand_paths(paths)
        both = [read_labelled(files, column)[0] for column in (0, 1)]
        known = [sum(example.label in labels for example in examples) for examples in both]
        examples = both[0] if known[0] >= known[1] else both[1]
        refuse_none(examples, paths)
        refuse_foreign_labels(examples, labels, ClassificationData.labels_of)
        return cls({TEST: examples}, labels, tokenizer, settings)

    def encoded(self, examples: list[LabelledText], split: str) -> list[list[int]]:
        return [ids[: self.most] for ids in self.tokenizer.encode_batch([example.text for example in examples])]

    def targets(self, batch: Batch, split: str) -> Tensor:
        return torch.tensor([self.numbers[self.splits[split][row].label] for row in batch.rows])

    def scores(self, shares: list[Judged], *, split: str = VALID) -> dict[str, float]:
        return label_scores(shares)
