"""Data diversification (`data.diversify`; Nguyen et al., 2020): train forward and backward models, add their
translations of the training text to it, and train the final model on all of it.

    RUN/diversification/
        recipe.toml                             the given settings
        train.en  train.de  valid.en  valid.de  the pairs in use
        forward-1/  backward-1/  forward-2/ …   run folders
        forward-1.en  forward-1.de  …           the training pairs as translated by each model
        diversified.en  diversified.de          the training pairs and the new ones among the translated pairs

A part that is finished is not repeated when the run is resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import tomli_w

from glassformer.data.cache import Cache
from glassformer.data.parallel_text import parallel_files, read_pairs, side_names
from glassformer.data.preparation import prepare_corpus
from glassformer.errors import Message, UserError
from glassformer.files import write_text
from glassformer.inference.diversify import Pair, new_pairs, translate_pairs, write_pairs
from glassformer.inference.run_folder import RunFolder, load_settings
from glassformer.inference.translator import load_translator
from glassformer.machine import cores
from glassformer.settings import (
    DataSettings,
    Raw,
    TrainSettings,
    check,
    merge,
    nest,
    read_settings,
    with_absolute_paths,
)
from glassformer.tasks import with_task
from glassformer.training.distributed import ProcessGroup
from glassformer.training.events import Listener, Note, ignore, preparation_progress
from glassformer.training.fine_tune import refuse_lora
from glassformer.training.run_lock import already_a_run, create_folder, lock_folder, remove_if_empty

if TYPE_CHECKING:
    from glassformer.training.train import TrainedRun

LONGER = 1.5  # the steps of the final model, relative to those of a forward or backward model
STEPS = ("steps", "validate_every", "checkpoint_every")
FREE = ("data.test", "data.cache")  # settings of the data that may change when the final model is resumed
OF_ONE_MODEL = ("train", "valid", "test", "diversify")  # settings of `data` that differ between the models

TrainModel = Callable[[Raw, Path], "TrainedRun"]  # trains a model in a folder, or continues to


class Teacher(NamedTuple):
    """A forward or backward model, which translates the training text."""

    name: str  # of its run folder
    is_forward: bool
    seed: int


def open_workspace(
    raw: Raw, out: str | Path | None, start_from: object, *, resume: bool, stack: ExitStack, listener: Listener
) -> Workspace | None:
    """Return the workspace of a run with data diversification, locked until the stack is closed; None for another run.

    The text of a new run is prepared first.
    """
    work = None if out is None else Workspace(Path(out))
    if work is not None and work.recipe.exists():
        if not resume:
            raise already_a_run(work.run.path)
        lock_folder(RunFolder(work.folder), stack)
        if work.has_models:
            work.refuse_other_settings(raw)
        else:  # nothing was trained with the old settings
            work.begin(merge(work.settings(), raw), listener)
        return work
    if not _is_diversified(raw):
        return None
    if work is not None and work.run.settings.exists() and resume:
        hint = "leave the setting out, or start a new run"
        raise UserError("This run was started without data.diversify.", where=str(work.run.path), hint=hint)
    if start_from is not None:
        raise UserError(
            "data.diversify and --from cannot be combined: the run given with --from translates in one direction only.",
            where="data.diversify",
            hint="use glassformer data diversify with runs of both directions",
        )
    raw, _ = with_task(raw, is_new=True)
    check(raw)
    work = Workspace(create_folder(out, raw).path)
    stack.callback(remove_if_empty, work.run)
    if raw.get("train", {}).get("lora"):
        refuse_lora(None, work.run)
    lock_folder(RunFolder(work.folder), stack)
    work.begin(raw, listener)
    return work


def _is_diversified(raw: Raw) -> bool:
    data = raw.get("data")
    return isinstance(data, dict) and bool(data.get("diversify") and data.get("train"))


def train_diversified(
    work: Workspace, raw: Raw, train_model: TrainModel, group: ProcessGroup, listener: Listener
) -> TrainedRun:
    """Train all models that are not finished, the final one last.

    raw: the given settings; those of a resumed run may change its final model.
    """
    if group.broadcast_from_rank0(work.run.settings.exists):
        return train_model(group.broadcast_from_rank0(lambda: work.changed_settings(raw)), work.run.path)
    teachers = group.broadcast_from_rank0(work.teachers)
    note = listener if group.is_rank0 else ignore
    for number, teacher in enumerate(teachers, 1):
        folder = work.folder / teacher.name
        if not group.broadcast_from_rank0(RunFolder(folder).card.exists):
            place = {"number": number, "total": len(teachers), "name": teacher.name}
            note(Note(Message("data diversification: model {number} of {total}, {name}", **place)))
            settings = group.broadcast_from_rank0(partial(work.teacher_settings, teacher))
            trained = train_model(settings, folder)
            if trained.reason == "interrupted":
                return replace(trained, path=work.run.path)
        group.run_on_rank0(partial(work.translate, teacher, listener))
    group.run_on_rank0(work.join)
    note(Note("data diversification: the final model"))
    return train_model(group.broadcast_from_rank0(work.final_settings), work.run.path)


class Workspace:
    """The folder RUN/diversification, and the settings of the models."""

    def __init__(self, run: Path) -> None:
        self.run = RunFolder(run)
        self.folder, self.recipe = self.run.diversification, self.run.diversification_recipe

    @property
    def has_models(self) -> bool:
        """Whether the training of the first model has started."""
        return any(self.folder.glob("*/run.toml"))

    def begin(self, raw: Raw, listener: Listener) -> None:
        """Write the pairs in use and the given settings."""
        data = DataSettings.model_validate(raw["data"])
        train = parallel_files(data.train)
        valid, test = (parallel_files(paths) if paths else None for paths in (data.valid, data.test))
        cache, progress = Cache(data.cache), preparation_progress(listener)
        splits, report = prepare_corpus(train, valid, test, data, cache=cache, progress=progress)
        for line in report.lines():
            listener(Note(line))
        raw = with_absolute_paths(_without_none(raw))
        for split, pairs in (("train", splits.train), ("valid", splits.valid)):
            write_pairs(self.files(split, raw), ((pair.source, pair.target) for pair in pairs))
        write_text(self.recipe, tomli_w.dumps(raw))

    def settings(self) -> Raw:
        """Return the given settings."""
        return read_settings(self.recipe)

    def refuse_other_settings(self, raw: Raw) -> None:
        """Raise a `UserError` if given settings differ from those that a model was trained with.

        Once the final model has started, its settings may change, but not its text.
        """
        before, given = _flat(self.settings()), _flat(with_absolute_paths(_without_none(raw)))
        if self.run.settings.exists():
            given = {path: value for path, value in given.items() if path.startswith("data.") and path not in FREE}
        if changed := [path for path, value in given.items() if before.get(path) != value]:
            raise UserError(
                "Settings that a forward or backward model was trained with cannot change.",
                where=", ".join(changed),
                hint="leave those settings out, or start a new run",
            )

    def files(self, split: str, raw: Raw | None = None) -> list[Path]:
        """Return the files of both sides of "train", "valid", "diversified", or of the translations of a teacher."""
        paths = (raw or self.settings())["data"]["train"]
        return [self.folder / f"{split}.{name}" for name in side_names(paths)]

    def teachers(self) -> list[Teacher]:
        """Return the forward and backward models, in the order of training."""
        raw = self.settings()
        directions = ((True, "forward"), (False, "backward")) * raw["data"]["diversify"]
        return [
            Teacher(f"{name}-{1 + n // 2}", is_forward, _seed(raw) + n)
            for n, (is_forward, name) in enumerate(directions)
        ]

    def teacher_settings(self, teacher: Teacher) -> Raw:
        """Return the settings of a forward or backward model."""
        raw, step = self.settings(), 1 if teacher.is_forward else -1
        data = {name: value for name, value in raw["data"].items() if name not in OF_ONE_MODEL}
        own = self._text("train", step) | _minutes(raw, 1 / len(self.teachers())) | {"train.seed": teacher.seed}
        return merge(raw | {"data": data}, nest(own))

    def final_settings(self) -> Raw:
        """Return the settings of the final model: those of the first model, for more steps and on all pairs."""
        raw, first = self.settings(), self.folder / self.teachers()[0].name
        chosen = load_settings(RunFolder(first)).model_dump(include={"model", "tokenizer", "train"}, exclude_none=True)
        chosen["train"] |= {name: round(chosen["train"][name] * LONGER) for name in STEPS}
        own = self._text("diversified") | _minutes(raw, 1) | {"train.seed": _seed(raw), "data.diversify": 0}
        return merge(merge(chosen, raw), nest(own))

    def changed_settings(self, raw: Raw) -> Raw:
        """Return given settings as those of the final model, to resume it with."""
        data = {name: value for name, value in raw.get("data", {}).items() if f"data.{name}" in FREE}
        return merge(raw | {"data": data}, nest(self._text("diversified") | _minutes(raw, 1)))

    def _text(self, split: str, step: int = 1) -> dict[str, Any]:
        """Return the settings of the training and validation text; step −1: from the target to the source."""
        sides = {"data.train": self.files(split), "data.valid": self.files("valid")}
        return {name: [str(path) for path in paths[::step]] for name, paths in sides.items()}

    def translate(self, teacher: Teacher, listener: Listener) -> None:
        """Write the training pairs as a model translates them, if that was not done yet."""
        paths = self.files(teacher.name)
        if all(path.exists() for path in paths):
            return
        pairs, progress = self._pairs("train"), preparation_progress(listener)
        translator = load_translator(self.folder / teacher.name)
        translated = list[Pair]()
        for pair in translate_pairs(pairs, translator, is_forward=teacher.is_forward, workers=cores()):
            translated.append(pair)
            progress("translating the training text", len(translated), len(pairs))
        write_pairs(paths, translated)

    def join(self) -> None:
        """Write the text of the final model."""
        pairs = self._pairs("train")
        translated = chain.from_iterable(self._pairs(teacher.name) for teacher in self.teachers())
        write_pairs(self.files("diversified"), [*pairs, *new_pairs(pairs, translated)])

    def _pairs(self, split: str) -> list[Pair]:
        return [(pair.source, pair.target) for pair in read_pairs(parallel_files(self.files(split)))]


def _seed(raw: Raw) -> int:
    return int(raw.get("train", {}).get("seed", TrainSettings.model_fields["seed"].default))


def _minutes(raw: Raw, share: float) -> dict[str, float]:
    """Return the time of a model: half of `train.minutes` is for the final model, and half for all others together."""
    minutes = raw.get("train", {}).get("minutes")
    return {"train.minutes": minutes / 2 * share} if minutes else {}


def _without_none(raw: Raw) -> Raw:
    return {
        name: _without_none(value) if isinstance(value, dict) else value
        for name, value in raw.items()
        if value is not None
    }


def _flat(raw: Raw) -> dict[str, Any]:
    """Return settings by their paths, such as `train.steps`."""
    flat: dict[str, Any] = {}
    for name, value in raw.items():
        flat |= {f"{name}.{inner}": of for inner, of in value.items()} if isinstance(value, dict) else {name: value}
    return flat
