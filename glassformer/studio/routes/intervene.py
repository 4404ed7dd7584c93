"""Interventions: change the computation of a model and compare its output."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from glassformer.errors import Message, UserError
from glassformer.glass.interventions import parse_intervention
from glassformer.glass.trace import KINDS
from glassformer.inference.translator import Translator
from glassformer.studio.context import StudioContext
from glassformer.studio.routes.fields import Text
from glassformer.studio.tracing import TraceRequest, translator_for

MAX_CHANGES = 64


class Intervention(BaseModel):
    """Interventions in the syntax of the command line; a forced token is given by its id: `force=3:17`.

    `target` is the output whose probability is compared; None for the model's own output.
    """

    run: Text
    text: Text
    target: Text | None = None
    changes: list[Text] = Field(min_length=1, max_length=MAX_CHANGES)


class Ablation(BaseModel):
    run: Text
    text: Text
    target: Text | None = None
    kind: Text = "encoder"


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    def translator_of(asked: Intervention | Ablation) -> Translator:
        return translator_for(context.models.load(asked.run), TraceRequest(asked.run, asked.text, asked.target))

    @router.post("/effect")
    def effect(asked: Intervention) -> dict[str, Any]:
        """Return the log-probability of every output token with and without the changes, and both outputs."""
        translator = translator_of(asked)
        tokenizer = translator.tokenizer
        changes = [parse_intervention(one, lambda number: _token(number, len(tokenizer))) for one in asked.changes]
        with context.model_lock:
            found = translator.effect(asked.text, changes, asked.target)
        outputs = {"before": found.output_before, "after": found.output_after}
        return {
            "written": found.written,
            "before": found.before,
            "after": found.after,
            "change": found.change,
            "outputs": {
                when: {"text": tokenizer.decode(ids), "pieces": tokenizer.pieces(ids)} for when, ids in outputs.items()
            },
        }

    @router.post("/ablate-heads")
    def ablate_heads(asked: Ablation) -> dict[str, Any]:
        """Return the change in log-probability when each head of a kind is ablated, layers × heads."""
        if asked.kind not in KINDS:
            hint = Message("choose one of {names}", names=", ".join(KINDS))
            raise UserError(Message("There is no kind of attention named {kind}.", kind=asked.kind), hint=hint)
        translator = translator_of(asked)
        with context.model_lock:
            return asdict(translator.ablate_heads(asked.text, asked.target, kind=asked.kind))

    return router


def _token(number: str, entries: int) -> int:
    token = int(number)
    if not 0 <= token < entries:
        raise ValueError(number)
    return token
