"""What the decoder could have written: candidates, the beam as a tree, teacher forcing beside free running."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel

from glassformer.errors import UserError
from glassformer.glass.teacher_forcing import TeacherForcingComparison
from glassformer.studio.asking import Asked, Seen, ask
from glassformer.studio.desk import Desk
from glassformer.studio.routes.fields import Text

MOST_CANDIDATES = 100
MOST_BEAMS = 8


class Pair(BaseModel):
    run: Text
    text: Text
    target: Text


def routes(desk: Desk) -> APIRouter:
    router = APIRouter()

    @router.get("/traces/{trace}/choices")
    def choices(request: Request, trace: str, most: int = 10) -> list[list[dict[str, Any]]]:
        """The likeliest tokens of every step. Their probabilities follow from the logits, which are sent as numbers."""
        found = desk.seen(request, trace).trace.next_tokens(max(1, min(most, MOST_CANDIDATES)))
        return [[{"token": choice.token, "piece": choice.piece} for choice in step] for step in found]

    @router.get("/traces/{trace}/tree")
    def tree(request: Request, trace: str, beam: int = 4) -> dict[str, Any]:
        """Everything that a beam search considers for the sentence of a trace."""
        seen = desk.seen(request, trace)
        _refuse_others(seen)
        if not 1 <= beam <= MOST_BEAMS:
            raise UserError(f"A beam of {beam} cannot be drawn.", hint=f"take one from 1 to {MOST_BEAMS}")
        with desk.working:
            return asdict(seen.opened.predictor.search(seen.asked.text, beam=beam))

    @router.post("/beside")
    def beside(request: Request, pair: Pair) -> dict[str, Any]:
        """A given target and the model's own writing, each as a trace, and the step at which they part."""
        opened = desk.shelf.open(pair.run)
        asked = Asked(pair.run, pair.text, target=pair.target)
        with desk.working:
            forced = ask(opened, asked)
            _refuse_others(forced)
            free = ask(opened, replace(asked, target=None, free=True))
        return {
            "forced": desk.keep(request, forced),
            "free": desk.keep(request, free),
            "divergence": TeacherForcingComparison(forced.trace, free.trace).divergence,
        }

    return router


def _refuse_others(seen: Seen) -> None:
    if not seen.opened.spec.sequence_to_sequence:
        raise UserError("This run does not write a translation.", where=seen.opened.name, hint="choose a run that does")
