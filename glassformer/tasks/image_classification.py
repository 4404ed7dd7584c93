"""Image classification: one label per image."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.data.filtering import split_off_validation
from glassformer.data.images.batching import ImageBatch, ImageBatches
from glassformer.data.images.dataset import ImageDataset, ImageRecord, read_images
from glassformer.data.images.format import ImageFormat, channel_statistics
from glassformer.data.images.idx import is_idx
from glassformer.data.preparation import ProgressCallback, no_progress
from glassformer.data.report import DataReport, DroppedExample, describe_held_out, example_split, fingerprint
from glassformer.errors import UserError
from glassformer.inference.classifier import ImageClassifier
from glassformer.inference.run import Run
from glassformer.models.heads import FirstTokenClassifier
from glassformer.planning import choices as planning
from glassformer.settings import DataSettings, Paths, Raw, Settings, ViTSettings, with_family
from glassformer.settings.aliases import original_task_name
from glassformer.tasks.classification import show_label
from glassformer.tasks.labelled import LINES_PER_BATCH, LabelTask, refuse_none, refuse_one_label, refuse_unknown_labels
from glassformer.tasks.spec import TEST, TRAIN, VALID, Chosen, HeldOut, PredictRequest, TaskSpec
from glassformer.text.tokenizer import Tokenizer

NAME = "image_classification"


class ImageClassificationData:
    """Images of one size, held in memory as bytes."""

    def __init__(self, settings: DataSettings, progress: ProgressCallback = no_progress) -> None:
        self.settings, self.progress = settings, progress
        self._read(None)
        self.fingerprint = fingerprint(original_task_name(NAME), self.splits[TRAIN].records, self.splits[VALID].records)

    def _read(self, form: ImageFormat | None) -> None:
        """Read all splits, resized to one format: by default the most frequent one of the training images."""
        self.splits: dict[str, ImageDataset] = {}
        dropped: dict[str, list[DroppedExample]] = {}
        for split, paths in ((TRAIN, self.settings.train), (VALID, self.settings.valid), (TEST, self.settings.test)):
            if paths:
                self.progress(f"reading the images of {split}", 0, None)
                self.splits[split], dropped[split], form = read_images(paths, form)
                if split != TRAIN:
                    refuse_none(self.splits[split].records, paths)
        assert form is not None
        self.form, held_out = form, ""
        self.labels = sorted({known.label for known in self.splits[TRAIN].records}, key=_sort_key)
        refuse_one_label(self.labels, self.settings.train)
        for pictures in self.splits.values():
            refuse_unknown_labels(pictures.records, self.labels, _label_of)
        if VALID not in self.splits:
            held_out = self._hold_out()
        accounts = {
            split: example_split(
                len(self.splits[split]), dropped.get(split, []), facts={}, labels=self._labels_in(split)
            )
            for split in (TRAIN, VALID, TEST)
            if split in self.splits
        }
        self.report = DataReport("images", accounts, held_out, [f"every image is resized to {form}"])

    def _hold_out(self) -> str:
        every = self.splits[TRAIN]
        digests = [known.digest for known in every.records]
        train, valid = split_off_validation(range(len(every)), digests, str(self.settings.train))
        self.splits |= {TRAIN: every.select(train), VALID: every.select(valid)}
        return describe_held_out(len(valid), len(every), "images", of="content")

    def _labels_in(self, split: str) -> list[str]:
        return [known.label for known in self.splits[split].records]

    def choose(
        self, raw: Raw, known: Tokenizer | None, precision: tuple[str, str], progress: ProgressCallback
    ) -> Chosen:
        raw = with_family(raw)
        wanted = {side: raw["model"].get(side, getattr(self.form, side)) for side in ImageFormat._fields}
        if self.form != ImageFormat(**wanted):
            self._read(ImageFormat(**wanted))
        mean, deviation = channel_statistics(self.splits[TRAIN].pixels_NCYX)
        choices = planning.choose_image_sizes(
            raw, images=len(self.splits[TRAIN]), form=self.form, mean=mean, deviation=deviation, precision=precision
        )
        return Chosen(*planning.apply(raw, choices), None)

    def task(
        self, tokenizer: None, settings: Settings, progress: ProgressCallback = no_progress
    ) -> ImageClassificationTask:
        form = ImageFormat.from_settings(vit_of(settings))
        if self.form != form:  # a resumed run keeps its image format
            self._read(form)
        return ImageClassificationTask(self.splits, self.labels, settings)


class ImageClassificationTask(LabelTask[ImageBatch]):
    """Cross-entropy of the label of each image; scored by accuracy and macro F1."""

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

    def logits(self, model: Any, batch: ImageBatch, split: str) -> tuple[Tensor, Tensor]:
        device = next(model.parameters()).device
        return model(batch.pixels_BCYX.to(device)).float(), batch.target_B.to(device)

    def shard_batch(self, batch: ImageBatch, index: int, count: int) -> ImageBatch | None:
        return batch.part(index, count)  # of the augmented images

    def locations(self, batch: ImageBatch) -> list[str]:
        return [self.splits[TRAIN].records[row].place for row in batch.rows]


def vit_of(settings: Settings) -> ViTSettings:
    assert isinstance(settings.model, ViTSettings)
    return settings.model


def _label_of(known: ImageRecord) -> tuple[str]:
    return (known.label,)


def _sort_key(label: str) -> tuple[int, str]:
    """Sort numbers by value (9 before 10), then words."""
    return (int(label) if label.isdigit() else 10**9, label)


def held_out(run: Run, paths: Paths) -> HeldOut:
    pictures, unread, _ = read_images(paths, ImageFormat.from_settings(vit_of(run.settings)))
    refuse_none(pictures.records, paths)
    refuse_unknown_labels(pictures.records, run.labels, _label_of)
    task = ImageClassificationTask({TEST: pictures}, run.labels, run.settings)
    return HeldOut(task, len(pictures), len(unread))


def recognize(files: list[str]) -> str:
    paths = [Path(file).expanduser() for file in files]
    if all(path.is_dir() for path in paths):
        return "a folder holds images, one folder per class"
    return "idx files hold images and their labels" if len(paths) == 2 and all(map(is_idx, paths)) else ""


def predict(classifier: ImageClassifier, request: PredictRequest) -> Iterator[str]:
    """Yield one line per image file, its name first."""
    files, is_empty = (file for file in request.lines() if file.strip()), True
    while batch := list(islice(files, LINES_PER_BATCH)):
        is_empty = False
        for file, result in zip(batch, classifier.predict(batch), strict=True):
            shown = show_label(file, result, request.as_json, key="image")
            yield f"{shown}\n" if request.as_json else f"{file}\t{shown}\n"
    if is_empty:
        raise UserError("No image file is given.", hint="name image files: boot.png shirt.jpg")


def trace(classifier: ImageClassifier, image: str, question: str) -> tuple[str, Any]:
    found = classifier.trace(image)
    return found.label, found


SPEC = TaskSpec(
    name=NAME,
    families=("vit",),
    input="image",
    output="labels",
    head=lambda model: FirstTokenClassifier,
    predictor=lambda run: ImageClassifier(run.model, ImageFormat.from_settings(vit_of(run.settings)), run.labels),
    data=ImageClassificationData,
    unit="images",
    recognize=recognize,
    held_out=held_out,
    predict=predict,
    usage="glassformer predict {run} image.png",
    trace=trace,
    huggingface={"vit": "ViTForImageClassification"},
)
