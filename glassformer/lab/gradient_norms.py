"""Gradient norms over time: a measurement of the vanishing gradient problem.

The model reads the source x_1 … x_S (`<eos>` last) and then `<sos>`; h is the hidden state from which its output layer
predicts the first target token. J_k = ∂h/∂x_{S−k} is the influence of the embedding k steps before the end of the
source. The first target words often translate the first source words, which are farthest from h.

    g(k) = mean over sentences of √(mean over directions u of ‖uᵀ·J_k‖²)

A direction has D independent normal components of variance 1/D. Therefore g(k) estimates ‖J_k‖_F/√D with one backward
pass per direction instead of D. Models are compared by g(k)/g(0), since the scales of embeddings and states differ.
Without attention the path from x_{S−k} to h has k encoder steps; with attention there is also a direct path.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from glassformer.nn.probe import Probe
from glassformer.reference.operation import Operation

EMBEDDING = "encoder.embedding"


class EmbeddingLeaf(Probe):
    """Replaces the source embeddings by a leaf tensor, for which gradients can be computed."""

    def __init__(self, prefix: str = "", found: list[Tensor] | None = None) -> None:
        self.prefix, self.found = prefix, [] if found is None else found

    def at(self, *path: str | int) -> Probe:
        return EmbeddingLeaf(self.prefix + "".join(f"{part}." for part in path), self.found)

    def __call__(self, name: str, tensor: Tensor, operation: Operation | None = None, *operands: Any) -> Tensor:
        if self.prefix + name != EMBEDDING:
            return tensor
        self.found.append(tensor.detach().requires_grad_())
        return self.found[-1]


def gradient_through_time(
    model: Any, source_BS: Tensor, lengths_B: Tensor, sos: int, *, reach: int, directions_ND: Tensor
) -> list[float]:
    """Return g(0) … g(reach − 1) for sources (`<eos>` last, then padding) of at least `reach` tokens each."""
    assert int(lengths_B.min()) >= reach
    leaf = EmbeddingLeaf()
    with torch.enable_grad():
        target_B1 = torch.full((len(source_BS), 1), sos, device=source_BS.device)
        state_BD = model.hidden(source_BS, target_B1, leaf)[:, 0]
        (x_BSD,) = leaf.found
        squares_BS = torch.zeros(source_BS.shape, device=x_BSD.device)
        for direction_D in directions_ND.to(state_BD):
            (gradient_BSD,) = torch.autograd.grad((state_BD @ direction_D).sum(), x_BSD, retain_graph=True)
            squares_BS += gradient_BSD.square().sum(dim=-1)
    back_BK = lengths_B[:, None].to(x_BSD.device) - 1 - torch.arange(reach, device=x_BSD.device)
    norms_BK = (squares_BS / len(directions_ND)).gather(1, back_BK).sqrt()
    return [float(norm) for norm in norms_BK.mean(dim=0)]


def directions(count: int, width: int, *, seed: int = 0) -> Tensor:
    """Return random directions, the same for every call with this width."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, width, generator=random) / width**0.5
