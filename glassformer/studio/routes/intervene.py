"""What would have happened if: changes inside a model, and what they do to its output."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from glassformer.errors import UserError
from glassformer.glass.interventions import parse_intervention
from glassformer.glass.trace import KINDS
from glassformer.inference.translator import Translator
from glassformer.studio.asking import Asked, translator_for
from glassformer.studio.desk import Desk
from glassformer.studio.routes.fields import Text

MOST_CHANGES = 64


class Intervention(BaseModel):
    """Changes as they are written on the command line; of a forced token its number: `force=3:17`.

    target  the output whose probability is compared; None for the model's own
    """

    run: Text
    text: Text
    target: Text | None = None
    changes: list[Text] = Field(min_length=1, max_length=MOST_CHANGES)


class Silencing(BaseModel):
    run: Text
    text: Text
    target: Text | None = None
    kind: Text = "encoder"


def routes(desk: Desk) -> APIRouter:
    router = APIRouter()

    def translator_of(asked: Intervention | Silencing) -> Translator:
        return translator_for(desk.shelf.open(asked.run), Asked(asked.run, asked.text, asked.target))

    @router.post("/effect")
    def effect(asked: Intervention) -> dict[str, Any]:
        """The log-probability of every token of an output with and without the changes, and both outputs."""
        translator = translator_of(asked)
        tokenizer = translator.tokenizer
        changes = [parse_intervention(one, lambda number: _token(number, len(tokenizer))) for one in asked.changes]
        with desk.working:
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

    @router.post("/silenced")
    def silenced(asked: Silencing) -> dict[str, Any]:
        """The change in log-probability as each head of a kind is silenced, layers × heads."""
        if asked.kind not in KINDS:
            raise UserError(f"There is no attention '{asked.kind}'.", hint=f"take {', '.join(KINDS)}")
        translator = translator_of(asked)
        with desk.working:
            return asdict(translator.silenced(asked.text, asked.target, kind=asked.kind))

    return router


def _token(number: str, entries: int) -> int:
    token = int(number)
    if not 0 <= token < entries:
        raise ValueError(number)
    return token
