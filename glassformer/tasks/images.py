"""Images: a picture in, one of a few labels out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.data.batching import Position
from glassformer.data.images.batching import ImageBatch, ImageBatches
from glassformer.data.images.dataset import ImageDataset, ImageRecord, read_images
from glassformer.data.images.format import ImageFormat, channel_statistics
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.report import (
    DataReport,
    DroppedExample,
    describe_held_out,
    example_split,
    fingerprint,
    split_off_validation,
)
from glassformer.errors import UserError
from glassformer.planning import choices as planning
from glassformer.settings import DataSettings, Paths, Raw, Settings, ViTSettings, with_family
from glassformer.tasks import TEST, TRAIN, VALID, Chosen
from glassformer.tasks.labelled import Judged, label_scores, refuse_foreign_labels, refuse_none
from glassformer.text.tokenizer import Tokenizer


class ImagesData:
    """Images of one form, all in memory as bytes."""

    def __init__(self, settings: DataSettings, tell: ProgressCallback = no_progress) -> None:
        self.settings, self.tell = settings, tell
        self._read(None)
        self.fingerprint = fingerprint("images", self.splits[TRAIN].records, self.splits[VALID].records)

    def _read(self, form: ImageFormat | None) -> None:
        """All splits in one form: by itself, that of most training images."""
        self.splits: dict[str, ImageDataset] = {}
        bad: dict[str, list[DroppedExample]] = {}
        for split, paths in ((TRAIN, self.settings.train), (VALID, self.settings.valid), (TEST, self.settings.test)):
            if paths:
                self.tell(f"reading the images of {split}", 0, None)
                self.splits[split], bad[split], form = read_images(paths, form)
                if split != TRAIN:
                    refuse_none(self.splits[split].records, paths)
        assert form is not None
        self.form, said = form, ""
        self.labels = sorted({known.label for known in self.splits[TRAIN].records}, key=_in_order)
        self._refuse_one_label()
        for pictures in self.splits.values():
            refuse_foreign_labels(pictures.records, self.labels, _label_of)
        if VALID not in self.splits:
            said = self._hold_out()
        accounts = {
            split: example_split(len(self.splits[split]), bad.get(split, []), facts={}, labels=self._labels_in(split))
            for split in (TRAIN, VALID, TEST)
            if split in self.splits
        }
        self.report = DataReport("images", accounts, said, [f"every image is brought to {form}"])

    def _hold_out(self) -> str:
        every = self.splits[TRAIN]
        digests = [known.digest for known in every.records]
        train, valid = split_off_validation(range(len(every)), digests, str(self.settings.train))
        self.splits |= {TRAIN: every.select(train), VALID: every.select(valid)}
        return describe_held_out(len(valid), len(every), "images", of="content")

    def _labels_in(self, split: str) -> list[str]:
        return [known.label for known in self.splits[split].records]

    def _refuse_one_label(self) -> None:
        if len(self.labels) < 2:
            found = f"one class only, '{self.labels[0]}'" if self.labels else "no images that can be read"
            raise UserError(
                f"The training data has {found}: there is nothing to choose.",
                where=str(self.settings.train),
                hint="give images of two classes or more",
            )

    def choose(self, raw: Raw, known: Tokenizer | None, precision: tuple[str, str], tell: ProgressCallback) -> Chosen:
        raw = with_family(raw)
        said = {side: raw["model"].get(side, getattr(self.form, side)) for side in ImageFormat._fields}
        if self.form != ImageFormat(**said):
            self._read(ImageFormat(**said))
        mean, deviation = channel_statistics(self.splits[TRAIN].pixels_NCYX)
        choices = planning.choose_image_sizes(
            raw, images=len(self.splits[TRAIN]), form=self.form, mean=mean, deviation=deviation, precision=precision
        )
        return Chosen(*planning.apply(raw, choices), None)

    def task(self, tokenizer: None, settings: Settings, tell: ProgressCallback = no_progress) -> ImagesTask:
        form = ImageFormat.from_settings(vit_of(settings))
        if self.form != form:  # a run that goes on in the form that was asked for when it began
            self._read(form)
        return ImagesTask(self.splits, self.labels, settings)


class ImagesTask:
    """Cross-entropy of the right label; scored by accuracy, and by F1 as the mean over the labels."""

    metric = "accuracy"
    signature = ""

    def __init__(self, splits: dict[str, ImageDataset], labels: list[str], settings: Settings) -> None:
        self.splits, self.settings = splits, settings
        numbers = {label: number for number, label in enumerate(labels)}
        size = settings.train.batch_tokens // vit_of(settings).tokens
        self.inputs = {
            split: ImageBatches(
                pictures.pixels_NCYX,
                torch.tensor([numbers[known.label] for known in pictures.records]),
                size,
                shift=settings.data.shift,
                flip=settings.data.flip,
            )
            for split, pictures in splits.items()
        }

    @classmethod
    def of_files(cls, paths: Paths, labels: list[str], settings: Settings) -> tuple[ImagesTask, list[DroppedExample]]:
        """A held-out set alone, for a model that is there already; and what of it cannot be read."""
        pictures, bad, _ = read_images(paths, ImageFormat.from_settings(vit_of(settings)))
        refuse_none(pictures.records, paths)
        refuse_foreign_labels(pictures.records, labels, _label_of)
        return cls({TEST: pictures}, labels, settings), bad

    def batches(self, seed: int, position: Position) -> Iterator[ImageBatch]:
        return self.inputs[TRAIN].forever(seed, position)

    def loss(self, model: Any, batch: ImageBatch) -> tuple[Tensor, int]:
        logits_BL, target_B = _answers(model, batch)
        smoothing = self.settings.train.label_smoothing
        return F.cross_entropy(logits_BL, target_B, label_smoothing=smoothing, reduction="sum"), len(target_B)

    def part(self, batch: ImageBatch, number: int, of: int) -> ImageBatch | None:
        return batch.part(number, of)

    def where(self, batch: ImageBatch) -> list[str]:
        return [self.splits[TRAIN].records[row].place for row in batch.rows]

    @torch.inference_mode()
    def judge(self, model: Any, number: int, of: int, *, split: str = VALID, final: bool = False) -> Judged:
        inputs, judged = self.inputs[split], Judged(0.0, [], [])
        for rows in inputs.in_order()[number::of]:
            logits_BL, target_B = _answers(model, inputs.batch(rows))
            judged = Judged(
                judged.loss + float(F.cross_entropy(logits_BL, target_B, reduction="sum")),
                judged.predicted + logits_BL.argmax(dim=1).tolist(),
                judged.right + target_B.tolist(),
            )
        return judged

    def scores(self, shares: list[Judged], *, split: str = VALID) -> dict[str, float]:
        return label_scores(shares)


def vit_of(settings: Settings) -> ViTSettings:
    assert isinstance(settings.model, ViTSettings)
    return settings.model


def _answers(model: Any, batch: ImageBatch) -> tuple[Tensor, Tensor]:
    """Logits and right labels, B×L and B."""
    device = next(model.parameters()).device
    return model(batch.pixels_BCYX.to(device)).float(), batch.target_B.to(device)


def _label_of(known: ImageRecord) -> tuple[str]:
    return (known.label,)


def _in_order(label: str) -> tuple[int, str]:
    """Numbers by their size, as 9 comes before 10; words behind them."""
    return (int(label) if label.isdigit() else 10**9, label)
