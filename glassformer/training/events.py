"""Typed events of a run: written to log.jsonl, shown by the progress bar, sent to TensorBoard.

The class names in lower case and the field names are the format of log.jsonl; do not rename them.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import Message


@dataclass(frozen=True)
class Event:
    """Base class of all events."""


@dataclass(frozen=True)
class Note(Event):
    """A message for the user, such as a chosen setting with its reason."""

    text: str


@dataclass(frozen=True)
class Preparing(Event):
    """Progress of reading, checking or encoding the data."""

    what: str
    pairs: int
    of: int | None  # total number, None while it is unknown


@dataclass(frozen=True)
class Started(Event):
    """The training loop starts."""

    step: int  # 0, or the step of the checkpoint that is resumed
    steps: int
    parameters: int
    device: str
    processes: int = 1
    seconds: float | None = None  # remaining time if train.minutes is set
    unit: str = "tokens"  # what the task's loss counts: the unit of `Progress.tokens_per_second`


@dataclass(frozen=True)
class Progress(Event):
    """Training loss and speed, averaged since the previous `Progress`."""

    step: int
    epoch: int
    loss: float
    lr: float
    gradient_norm: float
    tokens_per_second: float  # in `Started.unit`, which is not always tokens


@dataclass(frozen=True)
class Skipped(Event):
    """A step without an update because its loss or gradient was not finite."""

    step: int
    lines: list[str]  # file and line of its examples


@dataclass(frozen=True)
class Validated(Event):
    """Scores on the validation set."""

    step: int
    scores: dict[str, float]
    best: bool
    seconds: float


@dataclass(frozen=True)
class Saved(Event):
    """A checkpoint was written."""

    step: int
    path: str


@dataclass(frozen=True)
class Finished(Event):
    """The training loop has ended."""

    step: int
    reason: str  # "steps", "time", "patience" or "interrupted"
    seconds: float


@dataclass(frozen=True)
class Tested(Event):
    """Scores of the final model on a held-out set, computed as by `glassformer evaluate`."""

    split: str
    scores: dict[str, float]
    signature: str
    examples: int


@dataclass(frozen=True)
class Forgetting(Event):
    """Scores on the validation set of the run given with `--from`, before and after the training."""

    run: str
    before: dict[str, float]
    after: dict[str, float]
    examples: int


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Listener that ignores all events."""


def preparation_progress(listener: Listener) -> Callable[[str, int, int | None], None]:
    """Return a function that emits `Preparing` twice per second, after the first two seconds."""
    next_time = time.monotonic() + 2

    def report(what: str, pairs: int, of: int | None) -> None:
        nonlocal next_time
        if time.monotonic() >= next_time:
            next_time = time.monotonic() + 0.5
            listener(Preparing(what, pairs, of))

    return report


class LogFile:
    """Listener that appends each event to a file as one line of JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, event: Event) -> None:
        record: dict[str, Any] = {"event": type(event).__name__.lower(), "time": round(time.time(), 3)}
        record |= dataclasses.asdict(event)
        if isinstance(event, Note) and isinstance(event.text, Message):
            record["message"] = event.text.to_json()  # for translation in the studio
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_log(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a log in order. Lines that are not events, half written or damaged, are passed over."""
    if not log.exists():
        return
    with log.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):  # the last line of a run that was killed may be half written
                continue
            kind = event.get("event") if isinstance(event, dict) else None
            if isinstance(kind, str) and _NEEDED.get(kind, set()) <= event.keys():
                yield event


_NEEDED = {  # what readers of a log use; logs of older versions may lack the rest
    "started": {"parameters"},
    "progress": {"step", "epoch", "loss", "tokens_per_second"},
    "validated": {"step", "scores"},
    "finished": {"step", "reason", "seconds"},
    "tested": {"split", "scores"},
}


class TensorBoard:
    """Listener that writes scalars for `tensorboard --logdir RUN` (pip install glassformer[tensorboard])."""

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
    """Return a listener that passes each event to several listeners."""

    def listener_for_all(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return listener_for_all
