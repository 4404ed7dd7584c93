"""Progress display: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from glassformer.tasks.metrics import metric_name
from glassformer.training import events
from glassformer.training.events import Event

Item = TypeVar("Item")

NATS = ("loss", "likelihood", "nats_per_note", "baseline_loss")  # scores shown with three digits
PLAIN_EVERY = 15.0  # seconds between lines without a terminal


def stderr() -> Console:
    """Return the console for messages; results go to standard output."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


class TrainingView:
    """Shows the events of a run: a bar with loss, score, speed and remaining time, or a line every 15 seconds."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self.console = console or stderr()
        self.quiet = quiet
        self._bar: Progress | None = None
        self._preparation: Progress | None = None
        self._score, self._unit, self._last_line = "", "tokens", 0.0
        self._first: tuple[int, float] | None = None
        self._limit: float | None = None  # seconds

    def __enter__(self) -> TrainingView:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop()

    def __call__(self, event: Event) -> None:
        if self.quiet:
            return
        if isinstance(event, events.Preparing):
            self._preparing(event)
            return
        self._prepared()
        match event:
            case events.Note(text=text):
                self.console.print(text, markup=False)
            case events.Started():
                self._start(event)
            case events.Progress():
                self._progress(event)
            case events.Validated():
                self._validated(event)
            case events.Skipped():
                some = ", ".join(event.lines[:3]) + (", …" if event.lines[3:] else "")
                self.console.print(f"step {event.step:,}: loss or gradient not finite; step skipped (text: {some})")
            case events.Finished():
                self._stop()
                self._finished(event)
            case events.Tested():
                status = "  ".join(f"{metric_name(name)} {value:.2f}" for name, value in event.scores.items())
                self.console.print(f"{event.split}: {status}  on {event.examples:,} examples")
            case events.Forgetting():
                changes = (
                    f"{metric_name(name)} {value:.2f} → {event.after[name]:.2f}" for name, value in event.before.items()
                )
                self.console.print(f"validation set of {event.run}, before → after: {'  '.join(changes)}")

    def _preparing(self, event: events.Preparing) -> None:
        if self.console.is_terminal:
            if self._preparation is None:
                columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[status]}")
                self._preparation = Progress(*columns, TimeElapsedColumn(), console=self.console)
                self._preparation.add_task(event.what, status="")
                self._preparation.start()
            (task,) = self._preparation.task_ids
            status = f"{event.pairs:,} pairs" if event.pairs else ""
            self._preparation.update(task, description=event.what, total=event.of, completed=event.pairs, status=status)
        elif time.monotonic() - self._last_line > PLAIN_EVERY:
            self._last_line = time.monotonic()
            of = f" of {event.of:,}" if event.of else ""
            self.console.print(f"{event.what}: {event.pairs:,}{of} pairs" if event.pairs else event.what)

    def _prepared(self) -> None:
        if self._preparation is not None:
            self._preparation.stop()
            self._preparation = None

    def _start(self, event: events.Started) -> None:
        processes = f" in {event.processes} processes" if event.processes > 1 else ""
        where = f"{event.parameters:,} parameters on {event.device}{processes}"
        begin = f"from step {event.step:,} " if event.step else ""
        limit = "" if event.seconds is None else f" or for {_clock(event.seconds)}"
        if event.step < event.steps:  # otherwise there is nothing to train
            self.console.print(f"training {begin}to step {event.steps:,}{limit}, {where}; Ctrl-C saves and stops")
        self._steps, self._first, self._limit = event.steps, (event.step, time.monotonic()), event.seconds
        self._score, self._unit = "", event.unit
        if self.console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.fields[status]}"),
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=self.console,
            )
            self._task = self._bar.add_task("train", total=event.steps, completed=event.step, status="warming up")
            self._bar.start()

    def _progress(self, event: events.Progress) -> None:
        status = f"loss {event.loss:.3f}{self._score}  {event.tokens_per_second:,.0f} {self._unit}/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=event.step, total=self._last_step(event.step), status=status)
        elif time.monotonic() - self._last_line > PLAIN_EVERY:
            self._last_line = time.monotonic()
            self.console.print(
                f"step {event.step:,}/{self._last_step(event.step):,}  {status}  {self._left(event.step)}"
            )

    def _left(self, step: int) -> str:
        first, began = self._first or (0, 0.0)
        if step <= first:
            return ""
        seconds = (time.monotonic() - began) / (step - first) * (self._last_step(step) - step)
        return f"{_clock(seconds)} left"

    def _last_step(self, step: int) -> int:
        """Return the step at which training will end, by the number of steps or by the time limit."""
        first, began = self._first or (0, 0.0)
        passed = time.monotonic() - began
        if self._limit is None or step <= first or passed <= 0:
            return self._steps
        return min(self._steps, max(step, first + round((step - first) / passed * self._limit)))

    def _validated(self, event: events.Validated) -> None:
        scores = event.scores
        shown = ("rouge_l", "bleu", "accuracy", "f1", "perplexity")
        self._score = "".join(f"  {metric_name(name)} {scores[name]:.1f}" for name in shown if name in scores)
        status = "  ".join(
            f"{metric_name(name)} {value:.{3 if name in NATS else 1}f}" for name, value in scores.items()
        )
        self.console.print(f"step {event.step:,}: valid  {status}{'  (best)' if event.best else ''}")

    def _finished(self, event: events.Finished) -> None:
        reasons = {
            "steps": "all steps done",
            "time": "time limit reached",
            "patience": "early stopping: no better score",
            "interrupted": "stopped and saved; continue with --resume",
        }
        self.console.print(f"step {event.step:,}: {reasons[event.reason]}, after {_clock(event.seconds)}")

    def _stop(self) -> None:
        self._prepared()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"


def counted(items: Iterable[Item], *, total: int | None, what: str) -> Iterator[Item]:
    """Yield the items, with a progress bar on a terminal after two seconds."""
    console = stderr()
    if not console.is_terminal:
        yield from items
        return
    bar = Progress(
        TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("left"), TimeRemainingColumn(), console=console
    )
    task, began, shown = bar.add_task(what, total=total), time.monotonic(), False
    try:
        for item in items:
            if not shown and time.monotonic() - began > 2:
                bar.start()
                shown = True
            bar.advance(task)
            yield item
    finally:
        if shown:
            bar.stop()
