"""The state that all routes share: runs, traces, and a lock around the models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import Request

from glassformer.glass.prediction import with_prediction
from glassformer.studio import serialization
from glassformer.studio.model_store import ModelStore
from glassformer.studio.trace_store import TraceStore
from glassformer.studio.tracing import TraceRequest, TraceResult, ask


class StudioContext:
    """Runs, traces and `model_lock`, which is held while a model computes: two at once would compete for the cores."""

    def __init__(self, runs: Sequence[Path], traces: TraceStore | None = None) -> None:
        self.models = ModelStore(runs)
        self.traces = traces or TraceStore()
        self.model_lock = Lock()

    def trace(self, request: Request, asked: TraceRequest) -> dict[str, Any]:
        """Record a trace, store it for this visitor and return its outline."""
        run = self.models.load(asked.run)
        with self.model_lock:
            result = ask(run, asked)
        return self.store(request, result)

    def store(self, request: Request, result: TraceResult) -> dict[str, Any]:
        """Store a trace, with its prediction, for this visitor and return its outline."""
        result = replace(result, trace=with_prediction(result.trace))
        outline = serialization.outline(self.traces.add(request.state.visitor, result), result)
        return outline | {"vocabulary": _vocabulary(result)}

    def result(self, request: Request, trace: str) -> TraceResult:
        """Return a stored trace of this visitor."""
        return self.traces.get(request.state.visitor, trace)


def _vocabulary(result: TraceResult) -> dict[str, Any] | None:
    """Return the size of the vocabulary and the input words that it lacks; None for a model that reads images."""
    if result.opened.settings.tokenizer is None:
        return None
    tokenizer = result.opened.predictor.tokenizer
    text = f"{result.asked.question} {result.asked.text}"
    return {"entries": tokenizer.entries, "unknown": tokenizer.unknown_words(text)}
