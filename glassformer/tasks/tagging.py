"""Part-of-speech tagging, many to many: one tag per word."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from glassformer.data.batching import Batch
from glassformer.data.conllu import NO_TAG, TaggedSentence, read_conllu
from glassformer.data.parallel_text import expand_paths
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.report import DroppedExample, ExampleSplit, example_split
from glassformer.inference.classifier import TextTagger
from glassformer.inference.run import Run
from glassformer.models import heads
from glassformer.planning.sizes import BERT_TAGGING, LABELLED_TEXT, TaskSizes
from glassformer.settings import Paths, Settings
from glassformer.tasks.labelled import (
    IGNORE,
    LabelledData,
    LabelledTask,
    LabelShard,
    predict_lines,
    refuse_none,
    refuse_unknown_labels,
)
from glassformer.tasks.spec import TEST, TRAIN, VALID, HeldOut, TaskSpec, common_suffix
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.words import check_token_count, encode_words


class TaggingData(LabelledData[TaggedSentence]):
    """Sentences with one tag per word, from .conllu files."""

    name, examples = "tagging", "sentences"
    sizes = TaskSizes("sentences", {"recurrent_encoder": LABELLED_TEXT, "bert": BERT_TAGGING})

    def read(self, paths: Paths, split: str) -> tuple[list[TaggedSentence], list[DroppedExample]]:
        kept, dropped = read_tagged(paths)
        if split != TRAIN:
            return kept, dropped
        kept, long = self.drop_long(kept)
        return kept, [*dropped, *long]

    def account(self, examples: list[TaggedSentence], dropped: list[DroppedExample]) -> ExampleSplit:
        words = sum(len(example.words) for example in examples)
        tags = chain.from_iterable(example.tags for example in examples)
        return example_split(len(examples), dropped, facts={"words": words}, labels=tags)

    @staticmethod
    def labels_of(example: TaggedSentence) -> Iterable[str]:
        return example.tags

    def task(self, tokenizer: Tokenizer, settings: Settings, progress: ProgressCallback = no_progress) -> TaggingTask:
        return TaggingTask(self.splits, self.labels, tokenizer, settings)


class TaggingTask(LabelledTask[TaggedSentence]):
    """Cross-entropy of the tag of each word; scored by the accuracy over words.

    The tag is predicted at the last subword of a word: a left-to-right encoder has read the whole word there.
    """

    def __init__(
        self, splits: dict[str, list[TaggedSentence]], labels: list[str], tokenizer: Tokenizer, settings: Settings
    ) -> None:
        self.last: dict[str, list[list[int]]] = {}  # split → sentence → position of the last subword of each word
        super().__init__(splits, labels, tokenizer, settings)

    def encode(self, examples: list[TaggedSentence], split: str) -> list[list[int]]:
        rows = encode_words([example.words for example in examples], self.tokenizer)
        for example, row in zip(examples, rows, strict=True):
            check_token_count(len(row.ids), self.max_tokens, example.place)
        self.last[split] = [[len(self.prefix) + at for at in row.last] for row in rows]
        return [row.ids for row in rows]

    def targets(self, batch: Batch, split: str) -> Tensor:
        target_BS = torch.full(batch.source_BS.shape, IGNORE)
        for i, row in enumerate(batch.rows):
            tags = self.splits[split][row].tags
            target_BS[i, self.last[split][row]] = torch.tensor([self.label_ids[tag] for tag in tags])
        return target_BS

    def scores(self, shards: list[LabelShard], *, split: str = VALID) -> dict[str, float]:
        return {name: score for name, score in super().scores(shards).items() if name != "macro_f1"}


def read_tagged(paths: Paths) -> tuple[list[TaggedSentence], list[DroppedExample]]:
    """Return the sentences whose words all have a tag, and the others."""
    sentences = list(read_conllu(expand_paths(paths)))
    kept = [example for example in sentences if NO_TAG not in example.tags]
    dropped = [DroppedExample("a word without a tag", e.place, e.text) for e in sentences if NO_TAG in e.tags]
    return kept, dropped


def held_out(run: Run, paths: Paths) -> HeldOut:
    examples, _ = read_tagged(paths)
    refuse_none(examples, paths)
    refuse_unknown_labels(examples, run.labels, TaggingData.labels_of)
    return HeldOut(TaggingTask({TEST: examples}, run.labels, run.tokenizer, run.settings), len(examples))


def show_tags(text: str, result: list[tuple[str, str]], as_json: bool) -> str:
    if as_json:
        return json.dumps({"text": text, "words": [{"word": w, "tag": t} for w, t in result]}, ensure_ascii=False)
    return " ".join(f"{word}/{tag}" for word, tag in result)


SPEC = TaskSpec(
    name="tagging",
    families=("recurrent_encoder", "bert"),
    output="labels",
    head=lambda model: heads.Tagger,
    predictor=lambda run: TextTagger(run.model, run.tokenizer, run.labels),
    data=TaggingData,
    unit="words",
    recognize=lambda files: "a .conllu file has words with their tags" if common_suffix(files) == "conllu" else "",
    held_out=held_out,
    predict=partial(predict_lines, show=show_tags),
    trace=lambda predictor, text, question: (
        show_tags(text, predictor.predict([text])[0], as_json=False),
        predictor.trace(text),
    ),
    huggingface={"bert": "BertForTokenClassification"},
)
