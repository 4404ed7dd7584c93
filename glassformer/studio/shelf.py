"""The runs that were named: loaded when somebody first asks for one, and again when its weights have changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from glassformer import inference as predictor
from glassformer import machine
from glassformer.errors import UserError
from glassformer.inference.run import RunFolder, load_settings
from glassformer.inference.translator import load_translator
from glassformer.settings import Settings
from glassformer.tasks import TaskSpec, task_spec

LARGE = 5_000_000  # weights: a decoder step reads them all, and from there on that is what takes the time
Stamp = tuple[int, int]  # when the weights were written, and their size


@dataclass(frozen=True)
class Opened:
    """A run that is loaded: what it was trained to be, and what does it."""

    name: str
    settings: Settings
    predictor: Any  # a Translator, a TextClassifier … by its task
    stamp: Stamp
    drafter: Any  # the same, or a faster one that is a little less exact: what it writes is to be checked
    figures: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)  # by the names of a trace's tensors

    @property
    def spec(self) -> TaskSpec:
        """The task of the run."""
        return task_spec(self.settings.task)

    @property
    def model(self) -> Any:
        return self.predictor.model


class Shelf:
    """Runs by name. One is loaded at a time, however many visitors ask."""

    def __init__(self, runs: Sequence[Path]) -> None:
        self.folders = {name: RunFolder(path) for name, path in zip(_names(runs), runs, strict=True)}
        self._opened: dict[str, Opened] = {}
        self._lock = Lock()

    def described(self) -> list[dict[str, str]]:
        """What there is to choose from. A folder that was deleted meanwhile is left out."""
        found = []
        for name, folder in self.folders.items():
            if folder.settings.is_file():
                settings = load_settings(folder)
                model = settings.model
                about = {"task": settings.task, "family": model.family, "described": model.describe()}
                found.append({"name": name, **about})
        return found

    def folder(self, name: str) -> RunFolder:
        if (folder := self.folders.get(name)) is None:
            raise UserError(
                "The studio was not given this run.", where=name, hint=f"take one of {', '.join(self.folders)}"
            )
        if not folder.path.is_dir():
            raise _gone(folder)
        return folder

    def open(self, name: str) -> Opened:
        folder = self.folder(name)
        with self._lock:
            stamp = _stamp(folder)
            opened = self._opened.get(name)
            if opened is None or opened.stamp != stamp:
                opened = self._opened[name] = _opened(name, folder, stamp)
            return opened


def _opened(name: str, folder: RunFolder, stamp: Stamp) -> Opened:
    settings, exact = load_settings(folder), predictor.load(folder.path)
    weights = sum(weight.numel() for weight in exact.model.parameters())
    drafts = settings.model.family == "transformer" and weights > LARGE and machine.device() == "cpu"
    drafter = load_translator(folder.path, precision="int8") if drafts else exact
    return Opened(name, settings, exact, stamp, drafter)


def _stamp(folder: RunFolder) -> Stamp:
    try:
        found = folder.model.stat()
    except OSError:
        if folder.settings.is_file() and not folder.card.is_file():  # a card is written at the end of training
            raise UserError(
                "This run has no weights yet.",
                where=str(folder.path),
                hint="wait for its first validation; meanwhile see how its training goes",
            ) from None
        raise _gone(folder) from None
    return found.st_mtime_ns, found.st_size


def _gone(folder: RunFolder) -> UserError:
    return UserError(
        "The run is gone: its weights were moved or deleted while the studio was open.",
        where=str(folder.path),
        hint="put the folder back, or start the studio with another run",
    )


def _names(runs: Sequence[Path]) -> list[str]:
    """The name of each folder; a number behind it where two are called alike."""
    names: list[str] = []
    for path in runs:
        called, number = path.resolve().name, 1
        name = called
        while name in names:
            number += 1
            name = f"{called}-{number}"
        names.append(name)
    return names
