"""Where tokens stand, and what masks hide: a table of positions, and the sentence again under other masks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from glassformer.errors import UserError
from glassformer.glass.masks import MASKS, trace_with_masks
from glassformer.reference.operation import LIKE
from glassformer.studio import payloads
from glassformer.studio.asking import Seen
from glassformer.studio.desk import Desk
from glassformer.studio.routes.fields import Text
from glassformer.text.tokenizer import EOS

MOST_POSITIONS = 256


class Masks(BaseModel):
    """How many tokens of padding, and which masks stay."""

    padding: int = 3
    masks: list[Text] = list(MASKS)


def routes(desk: Desk) -> APIRouter:
    router = APIRouter()

    @router.get("/traces/{trace}/positions")
    def positions(request: Request, trace: str, side: str, length: int = 64) -> Response:
        """The vectors of the first places, as float32: of more places than the sentence has."""
        return payloads.binary(_positions(desk.seen(request, trace), side, length))

    @router.post("/traces/{trace}/masked")
    def masked(request: Request, trace: str, chosen: Masks) -> dict[str, Any]:
        """The sentence with padding behind it, under some of the masks: a trace of its own, and what became of it."""
        seen = desk.seen(request, trace)
        with desk.working:
            made = trace_with_masks(seen.opened.model, seen.trace, chosen.masks, padding=chosen.padding, eos=EOS)
        number = desk.traces.keep(request.state.visitor, replace(seen, trace=made.trace))
        return {
            "id": number,
            "source": made.trace.source,
            "target": made.trace.target,
            "looks": payloads.looks(made.trace),
            "written": made.written,
            "before": made.before,
            "after": made.after,
            "apart": made.apart,
        }

    return router


def _positions(seen: Seen, side: str, length: int) -> torch.Tensor:
    name = f"{side}.positions"
    if name not in seen.trace.tensors:
        raise UserError(f"This model is told no positions on the side of the {side}.", hint="choose a run that is")
    if not 1 <= length <= MOST_POSITIONS:
        raise UserError(f"A table of {length} positions cannot be drawn.", hint=f"take 1 to {MOST_POSITIONS}")
    operands = seen.trace.operands(name)
    operands[LIKE] = np.empty((length, operands[LIKE].shape[-1]))  # of another length
    return torch.from_numpy(seen.trace.provenance(name).operation.compute(**operands))
