"""The last two steps of a model as tensors of its trace: probabilities and the most probable token."""

from __future__ import annotations

from dataclasses import replace

from glassformer.glass.trace import Trace
from glassformer.nn.probe import Provenance
from glassformer.reference import prediction

PREDICTION = ("probabilities", "argmax")


def with_prediction(trace: Trace) -> Trace:
    """Return a trace with `probabilities` and `argmax`, computed from its logits; unchanged without logits."""
    if "logits" not in trace.tensors:
        return trace
    probabilities = trace["logits"].softmax(dim=-1)
    tensors = {
        "probabilities": probabilities,
        "argmax": probabilities.argmax(dim=-1, keepdim=probabilities.dim() == 1),
    }
    graph = {
        "probabilities": Provenance((), "probabilities", prediction.probabilities, {"logits": "logits"}),
        "argmax": Provenance((), "argmax", prediction.argmax, {"probabilities": "probabilities"}),
    }
    return replace(trace, tensors=trace.tensors | tensors, graph=dict(trace.graph) | graph)
