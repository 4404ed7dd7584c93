"""Decoding: candidate tokens, the beam search tree, teacher forcing vs. free running."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel

from glassformer.errors import Message, UserError
from glassformer.glass.teacher_forcing import TeacherForcingComparison
from glassformer.studio.context import StudioContext
from glassformer.studio.routes.fields import Text
from glassformer.studio.tracing import TraceRequest, ask

MAX_CANDIDATES = 100
MAX_BEAM = 8


class Pair(BaseModel):
    run: Text
    text: Text
    target: Text


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.get("/traces/{trace}/choices")
    def choices(request: Request, trace: str, most: int = 10) -> list[list[dict[str, Any]]]:
        """Return the most probable tokens of every step; the page computes their probabilities from the logits."""
        found = context.result(request, trace).trace.next_tokens(max(1, min(most, MAX_CANDIDATES)))
        return [[{"token": choice.token, "piece": choice.piece} for choice in step] for step in found]

    @router.get("/traces/{trace}/tree")
    def tree(request: Request, trace: str, beam: int = 4) -> dict[str, Any]:
        """Return every hypothesis that a beam search considers for the sentence of a trace."""
        result = context.result(request, trace)
        result.opened.require_translation()
        if not 1 <= beam <= MAX_BEAM:
            hint = Message("choose a number from 1 to {last}", last=MAX_BEAM)
            raise UserError(Message("The beam size cannot be {n}.", n=beam), hint=hint)
        with context.model_lock:
            return asdict(result.opened.predictor.search(result.asked.text, beam=beam))

    @router.post("/compare-teacher-forcing")
    def compare_teacher_forcing(request: Request, pair: Pair) -> dict[str, Any]:
        """Trace a given target (teacher forcing) and the model's output (free running), and where they diverge."""
        opened = context.models.load(pair.run)
        opened.require_translation()
        asked = TraceRequest(pair.run, pair.text, target=pair.target)
        with context.model_lock:
            forced = ask(opened, asked)
            free = ask(opened, replace(asked, target=None, free=True))
        return {
            "forced": context.store(request, forced),
            "free": context.store(request, free),
            "divergence": TeacherForcingComparison(forced.trace, free.trace).divergence,
        }

    return router
