"""Attention on matrices that a reader typed."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from glassformer.errors import Message, UserError
from glassformer.studio.context import StudioContext
from glassformer.studio.routes.fields import Text
from glassformer.studio.worked_example import MOST_DECIMALS, compute, read_inputs


class Matrices(BaseModel):
    """The matrices as text. With a memory it is encoder–decoder attention; without `decimals` nothing is rounded."""

    model_config = ConfigDict(populate_by_name=True)

    x: Text
    query: Text = Field(alias="W_Q")
    key: Text = Field(alias="W_K")
    value: Text = Field(alias="W_V")
    memory: Text | None = None
    scaled: bool = True
    decimals: int | None = None


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.post("/worked-example")
    def worked_example(given: Matrices) -> dict[str, Any]:
        """Return the inputs as numbers and every computed matrix with the operands of its cells."""
        if given.decimals is not None and not 0 <= given.decimals <= MOST_DECIMALS:
            hint = Message("choose a number from 0 to {last}", last=MOST_DECIMALS)
            raise UserError(Message("The number of decimals cannot be {n}.", n=given.decimals), hint=hint)
        texts = {"x": given.x, "W_Q": given.query, "W_K": given.key, "W_V": given.value}
        if given.memory is not None:
            texts["memory"] = given.memory
        inputs = read_inputs(texts)
        example = compute(inputs, scaled=given.scaled, decimals=given.decimals)
        return {"inputs": {name: matrix.tolist() for name, matrix in inputs.items()}, "steps": example.steps}

    return router
