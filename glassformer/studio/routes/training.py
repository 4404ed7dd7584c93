"""The training of a run, finished or in progress: its log, and a sentence run through its checkpoints."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from glassformer.studio import serialization, training_log
from glassformer.studio.checkpoint_views import CheckpointView, CheckpointViews, list_checkpoints
from glassformer.studio.context import StudioContext
from glassformer.studio.tracing import TraceRequest


def routes(context: StudioContext) -> APIRouter:
    router, views = APIRouter(), CheckpointViews()

    def view_of(run: str, step: int, text: str, target: str | None, question: str) -> CheckpointView:
        opened = context.models.load(run)
        with context.model_lock:
            asked = TraceRequest(run, text, target, question=question)
            return views.view(opened, context.models.folder(run), asked, step)

    @router.get("/log")
    def log(run: str, start: int = 0) -> dict[str, Any]:
        """Return the log from byte `start` on and the checkpoints that exist now."""
        folder = context.models.folder(run)
        return {**training_log.follow(folder.log, max(0, start)), "checkpoints": list_checkpoints(folder)}

    @router.get("/frame")
    def frame(run: str, step: int, text: str, target: str | None = None, question: str = "") -> dict[str, Any]:
        """Return the output and the attention of the checkpoint of a step."""
        found = view_of(run, step, text, target, question)
        trace = found.trace
        return {
            "step": step,
            "output": found.output,
            "log_probability": found.log_probability,
            "source": trace.source,
            "target": trace.target,
            "predicted": trace.predicted,
            "looks": serialization.attention_kinds(trace),
        }

    @router.get("/frame/weights")
    def weights(
        run: str, step: int, text: str, name: str, head: int, target: str | None = None, question: str = ""
    ) -> Response:
        """Return the attention weights of one head as float32."""
        return serialization.values(view_of(run, step, text, target, question).trace, name, [head])

    return router
