"""Text classification, many to one: one label per text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor

from glassformer.data.batching import Batch
from glassformer.data.labelled import COLUMN_NAMES, LabelledText, find_label_column, guess_label_column, read_labelled
from glassformer.data.parallel_text import expand_paths
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.report import DroppedExample, ExampleSplit, example_split
from glassformer.errors import Message
from glassformer.inference.classifier import Classification, TextClassifier
from glassformer.inference.run import Run
from glassformer.models.heads import Classifier, PoolerClassifier
from glassformer.planning.sizes import BERT_SIZES, LABELLED_TEXT, TaskSizes
from glassformer.settings import BertSettings, Paths, Settings
from glassformer.tasks.labelled import LabelledData, LabelledTask, predict_lines, refuse_none, refuse_unknown_labels
from glassformer.tasks.spec import TEST, TRAIN, HeldOut, TaskSpec, common_suffix
from glassformer.text.tokenizer import Tokenizer


class ClassificationData(LabelledData[LabelledText]):
    """Texts with one label each, from .tsv files."""

    name, examples = "classification", "texts"
    sizes = TaskSizes("texts", {"recurrent_encoder": LABELLED_TEXT, "bert": BERT_SIZES})

    def read(self, paths: Paths, split: str) -> tuple[list[LabelledText], list[DroppedExample]]:
        files = expand_paths(paths)
        if split == TRAIN:
            self.column = find_label_column(files)
            self.notes.append(f"the labels are in the {COLUMN_NAMES[self.column]} column, the texts in the other")
        kept, dropped = read_labelled(files, self.column)
        if split != TRAIN:
            return kept, dropped
        kept, long = self.drop_long(kept)
        kept, repeated = self._drop_duplicates(kept) if self.settings.drop_duplicates else (kept, [])
        return kept, [*dropped, *long, *repeated]

    def _drop_duplicates(self, examples: list[LabelledText]) -> tuple[list[LabelledText], list[DroppedExample]]:
        first: dict[tuple[str, str], LabelledText] = {}
        for example in examples:
            first.setdefault(example[:2], example)
        repeated = [example for example in examples if first[example[:2]] is not example]
        if contradictory := len(first) - len({text for text, _ in first}):
            self.notes.append(f"{contradictory:,} texts of train occur with more than one label")
        dropped = [
            DroppedExample("text and label occurred before", example.place, example.text) for example in repeated
        ]
        return list(first.values()), dropped

    def account(self, examples: list[LabelledText], dropped: list[DroppedExample]) -> ExampleSplit:
        words = sum(example.text.count(" ") + 1 for example in examples)
        return example_split(
            len(examples), dropped, facts={"words": words}, labels=(example.label for example in examples)
        )

    @staticmethod
    def labels_of(example: LabelledText) -> Iterable[str]:
        return (example.label,)

    def task(
        self, tokenizer: Tokenizer, settings: Settings, progress: ProgressCallback = no_progress
    ) -> ClassificationTask:
        return ClassificationTask(self.splits, self.labels, tokenizer, settings)


class ClassificationTask(LabelledTask[LabelledText]):
    """Cross-entropy of the label of each text; scored by accuracy and macro F1."""

    def encode(self, examples: list[LabelledText], split: str) -> list[list[int]]:
        return [ids[: self.max_tokens] for ids in self.tokenizer.encode_batch([example.text for example in examples])]

    def targets(self, batch: Batch, split: str) -> Tensor:
        return torch.tensor([self.label_ids[self.splits[split][row].label] for row in batch.rows])


def held_out(run: Run, paths: Paths) -> HeldOut:
    """Read held-out files. The labels of the run tell which column has the labels."""
    files = expand_paths(paths)
    both = [read_labelled(files, column)[0] for column in (0, 1)]
    known = [sum(example.label in run.labels for example in examples) for examples in both]
    examples = both[0] if known[0] >= known[1] else both[1]
    refuse_none(examples, paths)
    refuse_unknown_labels(examples, run.labels, ClassificationData.labels_of)
    return HeldOut(ClassificationTask({TEST: examples}, run.labels, run.tokenizer, run.settings), len(examples))


def recognize(files: list[str]) -> str:
    if common_suffix(files) != "tsv" or len(files) != 1:
        return ""
    column = guess_label_column(expand_paths(list(files)), sure=False)
    if column is None:
        return ""
    return Message("the {column} column of the .tsv has few distinct values", column=Message(COLUMN_NAMES[column]))


def show_label(text: str, result: Classification, as_json: bool, key: str = "text") -> str:
    if as_json:
        record = {key: text, "label": result.label, "probabilities": result.probabilities}
        return json.dumps(record, ensure_ascii=False)
    best = list(result.probabilities.items())[:5]
    return f"{result.label}\t" + "  ".join(f"{label} {probability:.3f}" for label, probability in best)


SPEC = TaskSpec(
    name="classification",
    families=("recurrent_encoder", "bert"),
    output="labels",
    head=lambda m: PoolerClassifier if isinstance(m, BertSettings) and m.pooling == "first" else Classifier,
    predictor=lambda run: TextClassifier(run.model, run.tokenizer, run.labels),
    data=ClassificationData,
    unit="texts",
    recognize=recognize,
    held_out=held_out,
    predict=partial(predict_lines, show=show_label),
    trace=lambda predictor, text, question: (predictor.predict([text])[0].label, predictor.trace(text)),
    huggingface={"bert": "BertForSequenceClassification"},
)
