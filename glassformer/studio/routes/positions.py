"""Positional encodings of any length, and the sentence computed again with other masks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from glassformer.errors import Message, UserError
from glassformer.glass.interventions import RemovePositions
from glassformer.glass.mask_removal import MASKS, trace_with_masks
from glassformer.reference.operation import LIKE
from glassformer.studio import serialization
from glassformer.studio.context import StudioContext
from glassformer.studio.routes.fields import Text
from glassformer.studio.tracing import TraceResult
from glassformer.text.tokenizer import EOS

MAX_POSITIONS = 256


class Masks(BaseModel):
    """The number of padding tokens to append, and the masks to keep."""

    padding: int = 3
    masks: list[Text] = list(MASKS)


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.get("/traces/{trace}/positions")
    def positions(request: Request, trace: str, side: str, length: int = 64) -> Response:
        """Return the positional vectors, or the rotation, of the first `length` positions as float32."""
        return serialization.binary(_positions(context.result(request, trace), side, length))

    @router.post("/traces/{trace}/masked")
    def masked(request: Request, trace: str, chosen: Masks) -> dict[str, Any]:
        """Trace the sentence again with padding appended and only some masks; return both results."""
        result = context.result(request, trace)
        with context.model_lock:
            made = trace_with_masks(result.opened.model, result.trace, chosen.masks, padding=chosen.padding, eos=EOS)
        number = context.traces.add(request.state.visitor, replace(result, trace=made.trace))
        return {
            "id": number,
            "source": made.trace.source,
            "target": made.trace.target,
            "looks": serialization.attention_kinds(made.trace),
            "written": made.written,
            "before": made.before,
            "after": made.after,
            "apart": made.apart,
        }

    return router


def _positions(result: TraceResult, side: str, length: int) -> torch.Tensor:
    named = (f"{side}.{kind}" for kind in RemovePositions.tensors)
    name = next((name for name in named if name in result.trace.tensors), None)
    if name is None:
        raise UserError(Message("The {side} has no positional encoding.", side=side), hint="choose a Transformer")
    if not 1 <= length <= MAX_POSITIONS:
        hint = Message("choose a number from 1 to {last}", last=MAX_POSITIONS)
        raise UserError(Message("The number of positions cannot be {n}.", n=length), hint=hint)
    operands = result.trace.operands(name)
    operands[LIKE] = np.empty((length, operands[LIKE].shape[-1]))
    return torch.from_numpy(result.trace.provenance(name).operation.compute(**operands))
