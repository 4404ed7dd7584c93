"""What classification and tagging share: examples with labels, of which a model chooses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.data.batching import Batch, PairBatches, Position
from glassformer.data.conllu import TaggedSentence
from glassformer.data.labelled import LabelledText
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.report import (
    DataReport,
    DroppedExample,
    ExampleSplit,
    describe_held_out,
    fingerprint,
    split_off_validation,
)
from glassformer.data.store import IdList
from glassformer.errors import UserError
from glassformer.models import FAMILIES
from glassformer.planning import choices as planning
from glassformer.settings import DataSettings, Paths, Raw, Settings, with_family
from glassformer.tasks import TEST, TRAIN, VALID, Chosen, metrics, refuse_notes
from glassformer.text.tokenizer import SOS, Tokenizer

Example = TypeVar("Example", LabelledText, TaggedSentence)

NOT_ASKED = -1  # in place of a label, where none is wanted


class LabelledData(Generic[Example]):
    """Examples with labels, all in memory."""

    task_name: str
    what: str  # the examples are

    def __init__(self, settings: DataSettings, tell: ProgressCallback = no_progress) -> None:
        self.settings, self.notes = settings, list[str]()
        self.splits: dict[str, list[Example]] = {}
        bad: dict[str, list[DroppedExample]] = {}
        for split, paths in ((TRAIN, settings.train), (VALID, settings.valid), (TEST, settings.test)):
            if paths:
                self.splits[split], bad[split] = self.read(paths, split)
                if split != TRAIN:
                    refuse_none(self.splits[split], paths)
        counts = Counter(label for example in self.splits[TRAIN] for label in self.labels_of(example))
        self.labels = sorted(counts)
        self._refuse_one_label()
        for split in self.splits:
            refuse_foreign_labels(self.splits[split], self.labels, self.labels_of)
        said = ""
        if VALID not in self.splits:
            every, where = len(self.splits[TRAIN]), str(settings.train)
            texts = [example.text for example in self.splits[TRAIN]]
            self.splits[TRAIN], self.splits[VALID] = split_off_validation(self.splits[TRAIN], texts, where)
            said = describe_held_out(len(self.splits[VALID]), every, self.what)
        accounts = {
            split: self.account(self.splits[split], bad.get(split, []))
            for split in (TRAIN, VALID, TEST)
            if split in self.splits
        }
        self.report = DataReport(self.what, accounts, said, self.notes)
        self.fingerprint = fingerprint(self.task_name, self.splits[TRAIN], self.splits[VALID])

    def read(self, paths: Paths, split: str) -> tuple[list[Example], list[DroppedExample]]:
        """The examples of a split, and what is left out of them."""
        raise NotImplementedError

    def account(self, examples: list[Example], bad: list[DroppedExample]) -> ExampleSplit:
        raise NotImplementedError

    @staticmethod
    def labels_of(example: Example) -> Iterable[str]:
        raise NotImplementedError

    def _tokens(self, tokenizer: Tokenizer, sample: int = 5_000) -> int:
        """Tokens an epoch, `<eos>` included; extrapolated from the first examples."""
        train = self.splits[TRAIN]
        some = tokenizer.encode_batch([example.text for example in train[:sample]])
        return sum(len(ids) + 1 for ids in some) * len(train) // len(some)

    def choose(self, raw: Raw, known: Tokenizer | None, precision: tuple[str, str], tell: ProgressCallback) -> Chosen:
        choices: list[planning.Choice]
        more: list[planning.Choice]
        raw = with_family(raw)
        refuse_notes(raw)
        amount = len(self.splits[TRAIN])
        raw, choices = planning.apply(raw, planning.choose_text_vocabulary(raw, self.task_name, amount))
        tokenizer = known or Tokenizer.train((example.text for example in self.splits[TRAIN]), **raw["tokenizer"])
        sizes = planning.choose_text_sizes(
            raw,
            self.task_name,
            amount=amount,
            tokens=self._tokens(tokenizer),
            precision=precision,
            metric="accuracy",
        )
        raw, more = planning.apply(raw, sizes)
        return Chosen(raw, [*choices, *more], tokenizer)

    def _refuse_one_label(self) -> None:
        if len(self.labels) > 1:
            return
        found = f"one label only, '{self.labels[0]}'" if self.labels else "no labelled examples"
        raise UserError(
            f"The training data has {found}: there is nothing to choose.",
            where=str(self.settings.train),
            hint="give examples of two labels or more",
        )

    def too_long(self, examples: list[Example]) -> tuple[list[Example], list[DroppedExample]]:
        """Training examples within the limits, and those beyond."""
        kept, bad = [], []
        for example in examples:
            words, characters = example.text.count(" ") + 1, len(example.text)
            if words > self.settings.max_words or characters > self.settings.max_characters:
                bad.append(DroppedExample(f"longer than {self.settings.max_words} words", example.place, example.text))
            else:
                kept.append(example)
        return kept, bad


def refuse_none(examples: Sequence[Any], paths: Paths) -> None:
    if not examples:
        raise UserError(
            "There are no labelled examples to be judged by.",
            where=str(paths),
            hint="give a file of the form that the training data has",
        )


def refuse_foreign_labels(examples: Sequence[Any], labels: Sequence[str], labels_of: Any) -> None:
    known = set(labels)
    for example in examples:
        for label in labels_of(example):
            if label not in known:
                raise UserError(
                    f"The label '{label}' does not occur in the training data, which has {', '.join(labels[:12])}.",
                    where=example.place,
                    hint="take such examples out, or add some to the training data "
                    "(are the columns in the same order as there?)",
                )


class Judged(NamedTuple):
    """What a model made of a share of the held-out examples: the labels that it chose, and the right ones."""

    loss: float
    predicted: list[int]
    right: list[int]


def label_scores(shares: Sequence[Judged]) -> dict[str, float]:
    """Of all shares together: loss, accuracy, and F1 as the mean over the labels."""
    predicted = [label for share in shares for label in share.predicted]
    right = [label for share in shares for label in share.right]
    return {
        "loss": sum(share.loss for share in shares) / len(right),
        "accuracy": metrics.accuracy(predicted, right),
        "macro_f1": metrics.macro_f1(predicted, right),
    }


class LabelledTask(Generic[Example]):
    """Cross-entropy of the right label; scored by how many are right."""

    metric = "accuracy"
    signature = ""

    def __init__(
        self, splits: dict[str, list[Example]], labels: list[str], tokenizer: Tokenizer, settings: Settings
    ) -> None:
        self.splits: dict[str, list[Example]] = splits
        self.settings, self.tokenizer = settings, tokenizer
        self.before: list[int] = [SOS] if FAMILIES[settings.model.family].reads_sos else []
        self.numbers = {label: number for number, label in enumerate(labels)}
        # A text is a pair without a target: batches of like length, in an order that can be gone on with.
        self.inputs = {
            split: PairBatches(self._pairs(examples, split), settings.train.batch_tokens)
            for split, examples in splits.items()
        }

    def _pairs(self, examples: list[Example], split: str) -> list[tuple[IdList, IdList]]:
        return [(self.before + ids, ()) for ids in self.encoded(examples, split)]

    def encoded(self, examples: list[Example], split: str) -> list[list[int]]:
        """The tokens of every example, as many of them as the model sees."""
        raise NotImplementedError

    @property
    def most(self) -> int | None:
        """Tokens of an example that the model sees, without what stands around them; None for any number."""
        longest = getattr(self.settings.model, "max_positions", None)
        return None if longest is None else longest - len(self.before) - 1

    def targets(self, batch: Batch, split: str) -> Tensor:
        """The numbers of the right labels, for every logit that the model gives; `NOT_ASKED` where there is none."""
        raise NotImplementedError

    def batches(self, seed: int, position: Position) -> Iterator[Batch]:
        return self.inputs[TRAIN].forever(seed, position)

    def loss(self, model: Any, batch: Batch) -> tuple[Tensor, int]:
        logits_NL, target_N = self._answers(model, batch, TRAIN)
        smoothing = self.settings.train.label_smoothing
        return F.cross_entropy(logits_NL, target_N, label_smoothing=smoothing, reduction="sum"), len(target_N)

    def part(self, batch: Batch, number: int, of: int) -> Batch | None:
        rows = batch.rows[number::of]
        return self.inputs[TRAIN].batch(rows, batch.next) if rows else None

    def where(self, batch: Batch) -> list[str]:
        return [self.splits[TRAIN][row].place for row in batch.rows]

    @torch.inference_mode()
    def judge(self, model: Any, number: int, of: int, *, split: str = VALID, final: bool = False) -> Judged:
        inputs, loss = self.inputs[split], 0.0
        predicted: list[int] = []
        right: list[int] = []
        for rows in inputs.in_order()[number::of]:
            logits_NL, target_N = self._answers(model, inputs.batch(rows), split)
            loss += float(F.cross_entropy(logits_NL, target_N, reduction="sum"))
            predicted += logits_NL.argmax(dim=1).tolist()
            right += target_N.tolist()
        return Judged(loss, predicted, right)

    def _answers(self, model: Any, batch: Batch, split: str) -> tuple[Tensor, Tensor]:
        """Logits and right labels of all that is asked, N×L and N."""
        device = next(model.parameters()).device
        logits_NL = model(batch.source_BS.to(device)).flatten(0, -2).float()
        target_N = self.targets(batch, split).flatten().to(device)
        asked_N = (target_N != NOT_ASKED).nonzero()[:, 0]
        return logits_NL[asked_N], target_N[asked_N]
