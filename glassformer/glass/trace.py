"""A trace: every named tensor of one pass over one sentence, with the tokens that its axes stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import UserError
from glassformer.nn.probe import Recorder


@dataclass(frozen=True)
class Trace:
    """What a model computed for one source and target, by name: `trace["decoder.0.cross.weights"]`."""

    source: list[str]  # pieces that the encoder read, `<eos>` last
    target: list[str]  # pieces that the decoder read, `<sos>` first
    predicted: list[str]  # piece that it thought likeliest after each of those
    tensors: dict[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def attention(self, kind: str = "cross", layer: int = -1) -> Tensor:
        """Weights of one layer's attention (H×Q×K): "encoder" or "decoder" self-attention, or "cross"."""
        part, inner = {
            "encoder": ("encoder", "self"),
            "decoder": ("decoder", "self"),
            "cross": ("decoder", "cross"),
        }[kind]
        found = [name for name in self.tensors if name.startswith(part) and name.endswith(f".{inner}.weights")]
        if not found:
            raise UserError(
                f"This model has no {kind} attention to look at.", fix="see what it has: list(trace.tensors)"
            )
        return self.tensors[found[layer]]


@torch.inference_mode()
def trace(model: Any, pieces: Any, source: list[int], target: list[int]) -> Trace:
    """One teacher-forced pass under a probe. `target` begins with `<sos>`; `pieces` turns ids into their names."""
    device = next(model.parameters()).device
    recorder = Recorder()
    logits_1TV = model(torch.tensor([source], device=device), torch.tensor([target], device=device), recorder)
    return Trace(
        source=pieces(source),
        target=pieces(target),
        predicted=pieces(logits_1TV[0].argmax(-1).tolist()),
        tensors={name: _of_the_sentence(tensor).cpu() for name, tensor in recorder.tensors.items()},
    )


@torch.inference_mode()
def trace_alone(model: Any, pieces: Any, tokens: list[int], *, answers: Any = None) -> Trace:
    """One pass of a model that reads one sequence: an encoder under a head, or a language model.

    answers  names what it chooses from, where that is not pieces
    """
    recorder = Recorder()
    output = model(torch.tensor([tokens], device=next(model.parameters()).device), recorder)
    has_logits, is_encoder = "logits" in recorder.tensors, "encoder.hidden" in recorder.tensors
    chosen = output.argmax(-1).flatten().tolist() if has_logits else []
    return Trace(
        source=pieces(tokens) if is_encoder else [],
        target=[] if is_encoder else pieces(tokens),
        predicted=(answers or pieces)(chosen),
        tensors={name: _of_the_sentence(tensor).cpu() for name, tensor in recorder.tensors.items()},
    )


def _of_the_sentence(tensor: Tensor) -> Tensor:
    """Without the batch axis, of length 1. Positions (T×D) have none."""
    return tensor[0] if tensor.dim() > 2 else tensor
