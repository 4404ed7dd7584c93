"""What every route is given: the runs, the traces, and one model at work at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import Request

from glassformer.studio import payloads
from glassformer.studio.asking import Asked, Seen, ask
from glassformer.studio.shelf import Shelf
from glassformer.studio.traces import Traces


class Desk:
    """`working` is held while a model computes: two at once would only take each other's cores."""

    def __init__(self, runs: Sequence[Path], traces: Traces | None = None) -> None:
        self.shelf = Shelf(runs)
        self.traces = traces or Traces()
        self.working = Lock()

    def ask(self, request: Request, asked: Asked) -> dict[str, Any]:
        """Traces a sentence, keeps the trace for this visitor, and gives its outline."""
        opened = self.shelf.open(asked.run)
        with self.working:
            seen = ask(opened, asked)
        return self.keep(request, seen)

    def keep(self, request: Request, seen: Seen) -> dict[str, Any]:
        outline = payloads.outline(self.traces.keep(request.state.visitor, seen), seen)
        return outline | {"vocabulary": _vocabulary(seen)}

    def seen(self, request: Request, trace: str) -> Seen:
        """A trace of this visitor."""
        return self.traces.of(request.state.visitor, trace)


def _vocabulary(seen: Seen) -> dict[str, Any] | None:
    """The words of what was asked that the model's vocabulary does not hold; None for a run of images."""
    if seen.opened.settings.tokenizer is None:
        return None
    tokenizer = seen.opened.predictor.tokenizer
    return {
        "entries": tokenizer.entries,
        "unknown": tokenizer.unknown_words(f"{seen.asked.question} {seen.asked.text}"),
    }
