"""Gradients: the backward pass over a sentence, and the gradient by distance from the end of the source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from fastapi import APIRouter, Request

from glassformer.glass.gradients import BackwardPass, backward_pass
from glassformer.lab.gradient_norms import directions, gradient_through_time
from glassformer.studio.context import StudioContext
from glassformer.studio.tracing import TraceRequest, translator_for
from glassformer.text.tokenizer import SOS

DIRECTIONS = 16  # random directions that estimate the norm of a Jacobian


def routes(context: StudioContext) -> APIRouter:
    router = APIRouter()

    @router.post("/traces/{trace}/gradient")
    def gradient(request: Request, trace: str) -> dict[str, Any]:
        """Run the backward pass of a traced sentence, and store its gradients as a trace of their own."""
        result = context.result(request, trace)
        with context.model_lock:
            found = backward_pass(result.opened.model, result.trace)
        number = context.traces.add(request.state.visitor, replace(result, trace=found.trace))
        return {"id": number} | _outline(found)

    @router.get("/gradient-through-time")
    def through_time(run: str, text: str) -> dict[str, Any]:
        """Return the gradient of the first decoder state at each source token, the last token first."""
        translator = translator_for(context.models.load(run), TraceRequest(run, text))
        ids = translator.encode_sentence(text)
        with context.model_lock:
            model = translator.model
            width = model.output.weight_VD.shape[1]
            norms = gradient_through_time(
                model,
                torch.tensor([ids], device=next(model.parameters()).device),
                torch.tensor([len(ids)]),
                SOS,
                reach=len(ids),
                directions_ND=directions(DIRECTIONS, width),
            )
        return {"run": run, "tokens": translator.tokenizer.pieces(ids)[::-1], "norms": norms}

    return router


def _outline(found: BackwardPass) -> dict[str, Any]:
    trace = found.trace
    return {
        "loss": found.loss,
        "losses": found.losses,
        "targets": found.targets,
        "norm": found.norm,
        "tensors": {name: list(trace[name].shape) for name in trace.tensors},
        "gradients": [
            {"name": name, "norm": float(trace[name].norm()), "difference": found.difference(name)}
            for name in found.names
        ],
        "parameters": [
            {
                "tensor": one.tensor,
                "role": one.role,
                "name": one.weight.name,
                "rows": one.weight.rows,
                "shape": one.shape,
                "norm": one.norm,
            }
            for one in found.parameters
        ],
    }
