"""The runs given to the studio, each loaded on first use and again after its weights have changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from glassformer.errors import Message, UserError
from glassformer.inference.loading import load
from glassformer.inference.run_folder import RunFolder, load_settings
from glassformer.settings import Settings
from glassformer.tasks import TaskSpec, task_spec

Version = tuple[int, int]  # modification time and size of the weights file


@dataclass(frozen=True)
class LoadedRun:
    """A loaded run.

    Attributes:
        predictor: a Translator, TextClassifier … depending on the task.
        version: of the weights.
        figures: the figure of the model by the names of the tensors in a trace.
    """

    name: str
    settings: Settings
    predictor: Any
    version: Version
    figures: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)

    @property
    def spec(self) -> TaskSpec:
        """The task of the run."""
        return task_spec(self.settings.task)

    @property
    def model(self) -> Any:
        return self.predictor.model

    def require_translation(self) -> None:
        """Raise an error unless the run translates."""
        if not self.spec.sequence_to_sequence:
            hint = "choose a run trained with task=translation"
            raise UserError("This run does not translate.", where=self.name, hint=hint)


class ModelStore:
    """Runs by name. Loading is serialized, so that a run is loaded once however many visitors ask for it."""

    def __init__(self, runs: Sequence[Path]) -> None:
        self.folders = {name: RunFolder(path) for name, path in zip(_unique_names(runs), runs, strict=True)}
        self._loaded: dict[str, LoadedRun] = {}
        self._lock = Lock()

    def list_runs(self) -> list[dict[str, Any]]:
        """Return the name, task, traits, family and description of every run whose folder still exists."""
        settings = {name: load_settings(run) for name, run in self.folders.items() if run.settings.is_file()}
        return [
            {
                "name": name,
                "task": its.task,
                "traits": traits_json(task_spec(its.task)),
                "family": its.model.family,
                "described": its.model.describe(),
            }
            for name, its in settings.items()
        ]

    def folder(self, name: str) -> RunFolder:
        if (folder := self.folders.get(name)) is None:
            hint = Message("choose one of {names}", names=", ".join(self.folders))
            raise UserError("The studio was not started with this run.", where=name, hint=hint)
        if not folder.path.is_dir():
            raise _missing(folder)
        return folder

    def load(self, name: str) -> LoadedRun:
        folder = self.folder(name)
        with self._lock:
            version = _version(folder)
            run = self._loaded.get(name)
            if run is None or run.version != version:
                run = self._loaded[name] = _load(name, folder, version)
            return run


def traits_json(task: TaskSpec) -> dict[str, str | bool]:
    """Return the traits of a task that the page depends on, so that it never compares task names."""
    return {
        "input": task.input,
        "output": task.output,
        "blanks": task.blanks,
        "sequence_to_sequence": task.sequence_to_sequence,
    }


def _load(name: str, folder: RunFolder, version: Version) -> LoadedRun:
    return LoadedRun(name, load_settings(folder), load(folder.path), version)


def _version(folder: RunFolder) -> Version:
    try:
        found = folder.weights.stat()
    except OSError:
        if folder.settings.is_file() and not folder.card.is_file():  # the model card is written after training
            raise UserError(
                "This run has no weights yet.",
                where=str(folder.path),
                hint="wait for the first validation; the Training view shows the progress",
            ) from None
        raise _missing(folder) from None
    return found.st_mtime_ns, found.st_size


def _missing(folder: RunFolder) -> UserError:
    return UserError(
        "The run folder or its weights were moved or deleted while the studio was running.",
        where=str(folder.path),
        hint="restore the folder, or start the studio with another run",
    )


def _unique_names(runs: Sequence[Path]) -> list[str]:
    """Return the name of each folder, with a number appended if it occurs more than once."""
    names: list[str] = []
    for path in runs:
        base, number = path.resolve().name, 1
        name = base
        while name in names:
            number += 1
            name = f"{base}-{number}"
        names.append(name)
    return names
