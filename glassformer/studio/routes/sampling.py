"""Sampling: the continuation of a text by a language model, or a sampled translation."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from glassformer.decoding import Sampling
from glassformer.errors import UserError
from glassformer.inference.generator import TextGenerator
from glassformer.studio.context import StudioContext
from glassformer.studio.routes.fields import Text
from glassformer.studio.tracing import TraceRequest, refuse_unfit

MAX_LENGTH = 200


class SampleBody(BaseModel):
    """A text and how to sample. `length` is the number of tokens after the text, for a language model."""

    run: Text
    text: Text
    temperature: float = Field(default=1.0, ge=0.1, le=3)
    k: int = Field(default=0, ge=0, le=1_000_000)
    seed: int = Field(default=1, ge=0, le=2**31)
    length: int = Field(default=20, ge=1, le=MAX_LENGTH)


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.post("/sample")
    def sample(asked: SampleBody) -> dict[str, Any]:
        """Return the text of every sampled token. A translation ends where the model ends it."""
        run = context.models.load(asked.run)
        refuse_unfit(run, TraceRequest(asked.run, asked.text))
        sampling = Sampling(temperature=asked.temperature, top_k=asked.k, seed=asked.seed)
        with context.model_lock:
            if run.spec.sequence_to_sequence:
                return {"pieces": [run.predictor.translate([asked.text], sampling=sampling)[0].text]}
            if isinstance(run.predictor, TextGenerator):
                return {"pieces": list(run.predictor.stream(asked.text, length=asked.length, sampling=sampling))}
        raise UserError(
            "This run does not write text.", where=asked.run, hint="choose a translator or a language model"
        )

    return router
