"""The backward pass over a traced sentence: the gradient of the loss at every tensor and every parameter.

The loss is the mean cross-entropy of the output, as in training but without dropout and label smoothing. The gradients
are computed by autograd. Those of the logits and of multi-head attention also have a provenance, so that each entry can
be recomputed from the entries it depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.errors import UserError
from glassformer.glass.mask_removal import output_tokens
from glassformer.glass.question_trace import QuestionTrace
from glassformer.glass.trace import Trace, recorded
from glassformer.nn.probe import Probe, Provenance, Recorder, Weight
from glassformer.reference import attention, backward, layers
from glassformer.reference.operation import Operation
from glassformer.text.tokenizer import EOS

PREFIX = "gradient"  # of the name of a gradient: gradient.encoder.0.self.weights
TARGET = f"{PREFIX}.target"
INPUTS = ("encoder.pixels", "encoder.tokens", "decoder.tokens")
NO_TARGET = -1


@dataclass(frozen=True)
class ParameterGradient:
    """The gradient of a parameter, or of some of its rows, as an operand of one tensor."""

    tensor: str
    role: str
    weight: Weight
    shape: tuple[int, ...]
    norm: float


@dataclass(frozen=True)
class BackwardPass:
    """Gradients of the mean cross-entropy.

    Attributes:
        trace: the forward pass, and the gradient of each tensor that the loss depends on, as `gradient.NAME`.
        loss: the mean over the positions that have a target.
        losses: per position; None without a target.
        targets: the tokens (or labels) that should be predicted; None without a target.
        parameters: the gradient of each parameter by the tensor that it is an operand of.
        norm: of the gradient of all parameters together.
    """

    trace: Trace
    loss: float
    losses: list[float | None]
    targets: list[str | None]
    parameters: list[ParameterGradient]
    norm: float

    @property
    def names(self) -> list[str]:
        """The names of all gradients of tensors, in the order of the forward pass."""
        return [name for name in self.trace.tensors if name.startswith(f"{PREFIX}.") and name != TARGET]

    def difference(self, name: str) -> float | None:
        """Return the largest difference between a gradient by autograd and by its formula; None without a formula."""
        again = self.trace.recompute(name)
        return None if again is None else float(np.abs(again - self.trace[name].numpy()).max())


class LiveTensors(Probe):
    """Passes tensors to a recorder and keeps them with their autograd history, so that they can be differentiated."""

    def __init__(self, inner: Probe, found: dict[str, Tensor]) -> None:
        self.inner, self.found = inner, found

    def at(self, *path: str | int) -> Probe:
        return LiveTensors(self.inner.at(*path), self.found)

    def wants(self, name: str) -> bool:
        return self.inner.wants(name)

    def full(self, name: str) -> str:
        return self.inner.full(name)

    def __call__(self, name: str, tensor: Tensor, operation: Operation | None = None, *operands: Any) -> Tensor:
        if tensor.requires_grad:
            self.found[self.full(name)] = tensor
        return self.inner(name, tensor, operation, *operands)


@contextmanager
def _requiring_gradients(model: nn.Module) -> Iterator[list[Tensor]]:
    """Make all parameters require gradients; the parameters of a loaded run do not."""
    before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        with torch.enable_grad():
            yield [parameter.requires_grad_() for parameter, _ in before]
    finally:
        for parameter, required in before:
            parameter.requires_grad_(required)


def backward_pass(model: Any, found: Trace) -> BackwardPass:
    """Repeat a traced pass with teacher forcing, and differentiate its loss.

    The targets are those of training where they are known: the target of a translation (or its own output), and the
    next token of a text. For a classifier they are its own predictions.
    """
    if "logits" not in found.tensors or isinstance(found, QuestionTrace):
        raise UserError("This model has no logits and therefore no loss.", hint="choose a model that predicts tokens")
    targets = _targets(found)
    device = next(model.parameters()).device
    inputs = [found[name][None].clone().to(device) for name in INPUTS if name in found.tensors]
    recorder, live = Recorder(copy=False, model=model), dict[str, Tensor]()
    with _requiring_gradients(model) as parameters:
        logits_TV = model(*inputs, LiveTensors(recorder, live)).reshape(len(targets), -1)
        target_T = torch.tensor(targets, device=device)
        losses_T = torch.nn.functional.cross_entropy(logits_TV, target_T, ignore_index=NO_TARGET, reduction="none")
        loss = losses_T.sum() / (target_T != NO_TARGET).sum()
        found_gradients = torch.autograd.grad(loss, [*parameters, *live.values()], allow_unused=True)
        gradients = list[Tensor | None](found_gradients)  # None: the loss does not depend on it
    losses = [None if target == NO_TARGET else one for target, one in zip(targets, losses_T.tolist(), strict=True)]
    passed = recorded(recorder, model, found.to_tokens, source=found.source, target=found.target)
    of_tensors = dict(zip(live, gradients[len(parameters) :], strict=True))
    return BackwardPass(
        _with_gradients(passed, of_tensors, targets),
        loss.item(),
        losses,
        [None if target == NO_TARGET else found.to_tokens([target])[0] for target in targets],
        _parameter_gradients(passed, dict(zip(map(id, parameters), gradients, strict=False))),
        sum(float(g.cpu().double().square().sum()) for g in gradients[: len(parameters)] if g is not None) ** 0.5,
    )


def _targets(found: Trace) -> list[int]:
    read = found.tensors.get("decoder.tokens")
    targets = output_tokens(found, None if read is None else read.tolist(), EOS)
    if not found.source and len(targets) > 1:  # a language model: the token after the last one is unknown
        targets[-1] = NO_TARGET
    return targets


def _parameter_gradients(passed: Trace, gradients: Mapping[int, Tensor | None]) -> list[ParameterGradient]:
    found = []
    for name, made in passed.graph.items():
        for role, weight in made.weights.items():
            gradient = gradients.get(id(passed.weights[weight.name]))
            if gradient is not None:
                part = gradient if weight.rows is None else gradient[slice(*weight.rows)]
                found.append(ParameterGradient(name, role, weight, tuple(part.shape), float(part.norm())))
    return found


# ------------------------------------------------------------------------------------------ provenance


def gradient_of(name: str) -> str:
    return f"{PREFIX}.{name}"


def _with_gradients(passed: Trace, gradients: Mapping[str, Tensor | None], targets: Sequence[int]) -> Trace:
    """Return a trace with the gradients, each with its formula where there is one."""
    tensors, graph = dict(passed.tensors), dict(passed.graph)
    tensors[TARGET] = torch.tensor(targets)
    graph[TARGET] = Provenance((PREFIX,), "target", backward.autograd)
    for name, gradient in gradients.items():
        if gradient is not None:
            made = passed.graph[name]
            tensors[gradient_of(name)] = gradient.detach().reshape(passed[name].shape).cpu()
            graph[gradient_of(name)] = Provenance((PREFIX, *made.path), made.name, backward.autograd)
    known = {name for name, gradient in gradients.items() if gradient is not None}
    for name, (operation, operands) in _formulas(passed, known, len(targets) - targets.count(NO_TARGET)):
        made = replace(graph[gradient_of(name)], operation=operation)
        for role, operand in operands.items():
            _add_operand(made, role, operand)
        graph[gradient_of(name)] = made
    return replace(passed, tensors=tensors, graph=graph)


def _add_operand(made: Provenance, role: str, operand: str | Weight | float) -> None:
    """Enter an operand: the name of a tensor, a weight, or a constant."""
    if isinstance(operand, str):
        made.tensors[role] = operand
    elif isinstance(operand, Weight):
        made.weights[role] = operand
    else:
        made.constants[role] = operand


Formula = tuple[Operation, dict[str, Any]]  # an operation and its operands: names of tensors, weights, constants


def _formulas(passed: Trace, known: set[str], count: int) -> Iterator[tuple[str, Formula]]:
    """Yield the formula of the gradient of the logits and of each tensor between the output and the input of a head."""
    if passed["logits"].dim() == 2:
        operands = {"logits": "logits", "target": TARGET, "share": 1 / count}
        yield "logits", (backward.logits_gradient, operands)
    for name in passed.tensors:
        if passed.graph[name].operation is attention.attention_output:
            yield from ((at, formula) for at, formula in _head_formulas(passed, name) if at in known)


def _head_formulas(passed: Trace, output: str) -> Iterator[tuple[str, Formula]]:
    """Walk from the output of multi-head attention to its queries, keys and values."""
    made = passed.provenance(output)
    head_output = made.tensors["head_output"]
    operands = {"gradient": gradient_of(output), "weight": made.weights["weight"], "heads": len(passed[head_output])}
    yield head_output, (backward.head_output_gradient, operands)
    inner = passed.provenance(head_output).tensors
    weights, value, gradient = inner["weights"], inner["value"], gradient_of(head_output)
    yield value, (backward.value_gradient, {"weights": weights, "gradient": gradient})
    yield weights, (backward.weights_gradient, {"gradient": gradient, "value": value})
    at = passed.provenance(weights).tensors["scores"]
    yield at, (backward.softmax_gradient, {"weights": weights, "gradient": gradient_of(weights)})
    while (step := passed.provenance(at)).operation in (layers.add, layers.scale_scores):
        before = step.tensors["x"]
        if step.operation is layers.add:
            yield before, (backward.mask_gradient, {"x": gradient_of(at)})
        else:
            yield before, (backward.scaling_gradient, {"x": gradient_of(at), "factor": step.constants["factor"]})
        at = before
    query, key = step.tensors["query"], step.tensors["key"]
    yield query, (backward.query_gradient, {"gradient": gradient_of(at), "key": key})
    yield key, (backward.key_gradient, {"gradient": gradient_of(at), "query": query})
    for rotated in (query, key):
        made = passed.provenance(rotated)
        if made.operation is attention.rotate:
            operands = {"gradient": gradient_of(rotated), "rotation": made.tensors["rotation"]}
            yield made.tensors["x"], (backward.rotation_gradient, operands)
