"""Classification, many to one: a text in, one of a few labels out."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from glassformer.data.account import Account, Bad, account
from glassformer.data.batching import Batch
from glassformer.data.corpus import text_files
from glassformer.data.labelled import COLUMNS, Labelled, labels_stand_in, read_labelled
from glassformer.data.preparation import Tell, silent
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


class ClassificationData(LabelledData[Labelled]):
    task_name, what = "classification", "texts"

    def read(self, paths: Paths, split: str) -> tuple[list[Labelled], list[Bad]]:
        files = text_files(paths)
        if split == TRAIN:
            self.column = labels_stand_in(files)
            self.notes.append(f"the labels are in the {COLUMNS[self.column]} column, the texts in the other")
        kept, bad = read_labelled(files, self.column)
        if split != TRAIN:
            return kept, bad
        kept, long = self.too_long(kept)
        kept, repeated = self._once(kept) if self.settings.drop_duplicates else (kept, [])
        return kept, [*bad, *long, *repeated]

    def _once(self, examples: list[Labelled]) -> tuple[list[Labelled], list[Bad]]:
        first: dict[tuple[str, str], Labelled] = {}
        for example in examples:
            first.setdefault(example[:2], example)
        again = [example for example in examples if first[example[:2]] is not example]
        contrary = len(first) - len({text for text, _ in first})
        if contrary:
            self.notes.append(f"{contrary:,} texts of train stand there with another label too")
        bad = [Bad("text and label occurred before", example.place, example.text) for example in again]
        return list(first.values()), bad

    def account(self, examples: list[Labelled], bad: list[Bad]) -> Account:
        words = sum(example.text.count(" ") + 1 for example in examples)
        return account(len(examples), bad, facts={"words": words}, labels=(example.label for example in examples))

    @staticmethod
    def labels_of(example: Labelled) -> Iterable[str]:
        return (example.label,)

    def task(self, tokenizer: Tokenizer, settings: Settings, tell: Tell = silent) -> ClassificationTask:
        return ClassificationTask(self.splits, self.labels, tokenizer, settings)


class ClassificationTask(LabelledTask[Labelled]):
    """Scored by accuracy, and by F1 as the mean over the labels."""

    @classmethod
    def of_files(cls, paths: Paths, labels: list[str], tokenizer: Tokenizer, settings: Settings) -> ClassificationTask:
        """A held-out set alone, for a model that is there already. Its labels tell which column they stand in."""
        files = text_files(paths)
        both = [read_labelled(files, column)[0] for column in (0, 1)]
        known = [sum(example.label in labels for example in examples) for examples in both]
        examples = both[0] if known[0] >= known[1] else both[1]
        refuse_none(examples, paths)
        refuse_foreign_labels(examples, labels, ClassificationData.labels_of)
        return cls({TEST: examples}, labels, tokenizer, settings)

    def encoded(self, examples: list[Labelled], split: str) -> list[list[int]]:
        return [ids[: self.most] for ids in self.tokenizer.encode_batch([example.text for example in examples])]

    def targets(self, batch: Batch, split: str) -> Tensor:
        return torch.tensor([self.numbers[self.splits[split][row].label] for row in batch.rows])

    def scores(self, shares: list[Judged], *, split: str = VALID) -> dict[str, float]:
        return label_scores(shares)
