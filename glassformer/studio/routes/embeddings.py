"""Token embeddings: the nearest tokens of the vocabulary."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from glassformer.errors import UserError
from glassformer.glass.nearest_tokens import nearest_tokens
from glassformer.studio.context import StudioContext


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.get("/traces/{trace}/nearest")
    def nearest(request: Request, trace: str, side: str, row: int) -> list[dict[str, Any]]:
        """Return the tokens whose embeddings are most similar to the embedding of a token of the sentence."""
        result = context.result(request, trace)
        if result.opened.spec.input == "image":
            raise UserError("This run reads images, not text.", where=result.opened.name, hint="enter a sentence")
        return [asdict(one) for one in nearest_tokens(result.trace, result.opened.predictor.tokenizer, side, row)]

    return router
