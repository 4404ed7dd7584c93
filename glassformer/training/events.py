"""What happens in a run, as typed events: written to log.jsonl, shown by the progress bar, sent to TensorBoard."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import Message


@dataclass(frozen=True)
class Event:
    pass


@dataclass(frozen=True)
class Note(Event):
    """Something a person should read: what was chosen and why, what was found."""

    text: str


@dataclass(frozen=True)
class Preparing(Event):
    """How far the text is read, checked or encoded."""

    what: str
    pairs: int
    of: int | None  # None while that is not known


@dataclass(frozen=True)
class Started(Event):
    step: int  # 0, or where a resumed run goes on
    steps: int
    parameters: int
    device: str
    processes: int = 1
    seconds: float | None = None  # until the time is up, where it is limited


@dataclass(frozen=True)
class Progress(Event):
    """Means since the last event of this kind."""

    step: int
    epoch: int
    loss: float
    lr: float
    gradient_norm: float
    tokens_per_second: float


@dataclass(frozen=True)
class Skipped(Event):
    """A step whose loss or gradient was no finite number: it changed nothing."""

    step: int
    lines: list[str]  # where its text stands


@dataclass(frozen=True)
class Validated(Event):
    step: int
    scores: dict[str, float]
    best: bool
    seconds: float


@dataclass(frozen=True)
class Saved(Event):
    step: int
    path: str


@dataclass(frozen=True)
class Finished(Event):
    step: int
    reason: str  # "steps", "time", "patience" or "interrupted"
    seconds: float


@dataclass(frozen=True)
class Tested(Event):
    """The finished model on a held-out set, as `evaluate` would score it."""

    split: str
    scores: dict[str, float]
    signature: str
    examples: int


def called(score: str) -> str:
    """What people call a score."""
    return {"bleu": "BLEU", "chrf": "chrF", "rouge_l": "ROUGE-L", "f1": "F1"}.get(score, score.replace("_", " "))


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A listener that does not."""


def preparing(listener: Listener) -> Callable[[str, int, int | None], None]:
    """Tells a listener of the preparation twice a second, once it has taken two seconds."""
    next_time = time.monotonic() + 2

    def tell(what: str, pairs: int, of: int | None) -> None:
        nonlocal next_time
        if time.monotonic() >= next_time:
            next_time = time.monotonic() + 0.5
            listener(Preparing(what, pairs, of))

    return tell


class LogFile:
    """Appends each event as one line of JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, event: Event) -> None:
        record: dict[str, Any] = {"event": type(event).__name__.lower(), "time": round(time.time(), 3)}
        record |= dataclasses.asdict(event)
        if isinstance(event, Note) and isinstance(event.text, Message):
            record["message"] = event.text.to_json()  # for translation in the studio
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


class TensorBoard:
    """The same events for `tensorboard --logdir RUN` (pip install glassformer[tensorboard])."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder))

    def __call__(self, event: Event) -> None:
        if isinstance(event, Progress):
            for name in ("loss", "lr", "gradient_norm", "tokens_per_second"):
                self._add(f"train/{name}", getattr(event, name), event.step)
        elif isinstance(event, Validated):
            for name, value in event.scores.items():
                self._add(f"valid/{name}", value, event.step)

    def _add(self, name: str, value: float, step: int) -> None:
        self._writer.add_scalar(name, value, step)


def all_of(*listeners: Listener) -> Listener:
    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return tell
