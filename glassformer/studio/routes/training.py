"""How a run was trained, or is being trained: its log, and a sentence through its checkpoints."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from glassformer.studio import logs, payloads
from glassformer.studio.asking import Asked
from glassformer.studio.desk import Desk
from glassformer.studio.film import Film, Frame, checkpoints


def routes(desk: Desk) -> APIRouter:
    router, film = APIRouter(), Film()

    def frame_of(run: str, step: int, text: str, target: str | None, question: str) -> Frame:
        opened = desk.shelf.open(run)
        with desk.working:
            return film.frame(opened, desk.shelf.folder(run), Asked(run, text, target, question=question), step)

    @router.get("/log")
    def log(run: str, start: int = 0) -> dict[str, Any]:
        """What the log has after a place in it, and the checkpoints that are there now."""
        folder = desk.shelf.folder(run)
        return {**logs.follow(folder.log, max(0, start)), "checkpoints": checkpoints(folder)}

    @router.get("/frame")
    def frame(run: str, step: int, text: str, target: str | None = None, question: str = "") -> dict[str, Any]:
        """What the checkpoint of a step makes of a sentence."""
        found = frame_of(run, step, text, target, question)
        trace = found.trace
        return {
            "step": step,
            "output": found.output,
            "log_probability": found.log_probability,
            "source": trace.source,
            "target": trace.target,
            "predicted": trace.predicted,
            "looks": payloads.looks(trace),
        }

    @router.get("/frame/weights")
    def weights(
        run: str, step: int, text: str, name: str, head: int, target: str | None = None, question: str = ""
    ) -> Response:
        """Where one head of it looked, float32."""
        return payloads.values(frame_of(run, step, text, target, question).trace, name, [head])

    return router
