"""Data sets of text that are held in memory: splits, held-out examples, report, planned settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from glassformer.data.batching import AnyBatch, Batches, Position
from glassformer.data.filtering import split_off_validation
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.report import DataReport, DroppedExample, ExampleSplit, describe_held_out, fingerprint
from glassformer.errors import UserError
from glassformer.planning import choices as planning
from glassformer.planning.sizes import TaskSizes
from glassformer.settings import DataSettings, Paths, Raw, with_family
from glassformer.settings.aliases import original_task_name
from glassformer.tasks.spec import TEST, TRAIN, VALID, Chosen
from glassformer.text.tokenizer import Tokenizer

Example = TypeVar("Example", bound=Any)  # has .text and .place
SAMPLE = 5_000  # examples that are tokenized to estimate the number of tokens per epoch


class ExamplesData(Generic[Example]):
    """Base class of `Data` for examples with a `text` and a `place` (file:line).

    name         of the task
    examples     what an example is called in the report
    sizes        sizes that the settings are chosen from
    metric_name  the metric for early stopping, as messages call it
    """

    name: ClassVar[str]
    examples: ClassVar[str]
    sizes: ClassVar[TaskSizes]
    metric_name: ClassVar[str]

    def __init__(self, settings: DataSettings, progress: ProgressCallback = no_progress) -> None:
        self.settings, self.notes, self.labels = settings, list[str](), list[str]()
        self.splits: dict[str, list[Example]] = {}
        dropped: dict[str, list[DroppedExample]] = {}
        for split, paths in ((TRAIN, settings.train), (VALID, settings.valid), (TEST, settings.test)):
            if paths:
                self.splits[split], dropped[split] = self.read(paths, split)
        self.check()
        held_out = ""
        if VALID not in self.splits:
            total = len(self.splits[TRAIN])
            self.splits[TRAIN], self.splits[VALID] = self.hold_out(self.splits[TRAIN], str(settings.train))
            held_out = describe_held_out(len(self.splits[VALID]), total, self.examples)
        accounts = {
            split: self.account(self.splits[split], dropped.get(split, []))
            for split in (TRAIN, VALID, TEST)
            if split in self.splits
        }
        self.report = DataReport(self.examples, accounts, held_out, self.notes)
        self.splits[TRAIN] = self.augment(self.splits[TRAIN])
        self.fingerprint = fingerprint(original_task_name(self.name), self.splits[TRAIN], self.splits[VALID])

    def read(self, paths: Paths, split: str) -> tuple[list[Example], list[DroppedExample]]:
        """Return the examples of a split, and those that are dropped."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise `UserError` if the splits cannot be used together."""

    def hold_out(self, examples: list[Example], where: str) -> tuple[list[Example], list[Example]]:
        """Split validation examples off the training examples."""
        return split_off_validation(examples, [example.text for example in examples], where)

    def account(self, examples: list[Example], dropped: list[DroppedExample]) -> ExampleSplit:
        """Return what the report says about a split."""
        raise NotImplementedError

    def augment(self, examples: list[Example]) -> list[Example]:
        """Return the examples that are trained on."""
        return examples

    def choose(
        self, raw: Raw, known: Tokenizer | None, precision: tuple[str, str], progress: ProgressCallback
    ) -> Chosen:
        raw = with_family(raw)
        raw, choices = planning.apply(raw, self.choose_tokenizer(raw))
        tokenizer = known or self.train_tokenizer(raw["tokenizer"])
        sizes = planning.choose_text_sizes(
            raw,
            self.sizes,
            amount=self.amount,
            tokens=self.tokens_per_epoch(tokenizer),
            precision=precision,
            metric=self.metric_name,
            max_positions=self.max_positions(raw),
            fine_tune=known is not None,
        )
        raw, more = planning.apply(raw, sizes)
        return Chosen(raw, [*choices, *more], tokenizer)

    @property
    def amount(self) -> int:
        """The amount of training data, in the unit of `sizes`."""
        return len(self.splits[TRAIN])

    def max_positions(self, raw: Raw) -> tuple[int, str] | None:
        """The maximum length that a model needs and the reason; None for the default of the model family."""
        return None

    def choose_tokenizer(self, raw: Raw) -> list[planning.Choice]:
        """Choose the settings that are needed before the text is tokenized."""
        refuse_notes(raw)
        return planning.choose_text_vocabulary(raw, self.sizes, self.amount)

    def train_tokenizer(self, settings: Raw) -> Tokenizer:
        return Tokenizer.train((example.text for example in self.splits[TRAIN]), **settings)

    def tokens_per_epoch(self, tokenizer: Tokenizer) -> int:
        """Estimate the tokens per epoch, `<eos>` included, from the first examples."""
        train = self.splits[TRAIN]
        sample = tokenizer.encode_batch([example.text for example in train[:SAMPLE]])
        return sum(len(ids) + 1 for ids in sample) * len(train) // len(sample)


class BatchedTask(Generic[AnyBatch]):
    """Base class of a `Task`: `inputs` has the batches of every split."""

    inputs: Mapping[str, Batches[AnyBatch]]

    def batches(self, seed: int, position: Position) -> Iterator[AnyBatch]:
        return self.inputs[TRAIN].forever(seed, position)

    def shard_batch(self, batch: Any, index: int, count: int) -> AnyBatch | None:
        rows = batch.rows[index::count]
        return self.inputs[TRAIN].batch(rows, batch.next) if rows else None

    def shard_of(self, split: str, index: int, count: int) -> Iterator[AnyBatch]:
        """Yield the batches of shard `index` of `count` of a held-out set."""
        inputs = self.inputs[split]
        return (inputs.batch(rows) for rows in inputs.in_order()[index::count])


def likelihood_scores(loss: float) -> dict[str, float]:
    """Return the scores that follow from the mean loss per token."""
    return {"loss": loss, "likelihood": -loss, "perplexity": math.exp(min(loss, 700.0))}


def refuse_notes(raw: Raw) -> None:
    if raw.get("tokenizer", {}).get("kind") == "notes":
        hint = "set tokenizer.kind=bpe or tokenizer.kind=characters"
        raise UserError("tokenizer.kind=notes is only valid for music.", where="tokenizer.kind", hint=hint)
