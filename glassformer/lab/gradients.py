"""How far back a gradient reaches: the vanishing gradient (기울기 소실), measured.

A model has read the source x_1 … x_S, `<eos>` last, and then `<sos>`: h is the state from which its output layer will
predict the first target token. J_k = ∂h/∂x_{S−k} is what the embedding of the token k steps before the end of the
source still does to it. In translation the first words that are written often stand for the first that were read, so
what is needed most is farthest back.

    g(k) = the mean over sentences of √(the mean over directions u of ‖uᵀ·J_k‖²)

A direction has D independent normal numbers of variance 1/D. Thus g(k) estimates ‖J_k‖_F/√D, and takes one backward
pass a direction instead of D. Between models only the course of g(k)/g(0) can be compared: a factor that embeddings or
states have in common says nothing. Without attention the way from x_{S−k} to h leads through k steps of the encoder;
with attention, and in a Transformer, it also leads past them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from glassformer.nn.probe import Probe
from glassformer.reference.operation import Operation

EMBEDDING = "encoder.embedding"


class Beginning(Probe):
    """Makes the source's embeddings the point at which gradients are asked for."""

    def __init__(self, prefix: str = "", found: list[Tensor] | None = None) -> None:
        self.prefix, self.found = prefix, [] if found is None else found

    def at(self, *path: str | int) -> Probe:
        return Beginning(self.prefix + "".join(f"{part}." for part in path), self.found)

    def __call__(self, name: str, tensor: Tensor, operation: Operation | None = None, *operands: Any) -> Tensor:
        if self.prefix + name != EMBEDDING:
            return tensor
        self.found.append(tensor.detach().requires_grad_())
        return self.found[-1]


def gradient_through_time(
    model: Any, source_BS: Tensor, lengths_B: Tensor, sos: int, *, reach: int, directions_ND: Tensor
) -> list[float]:
    """g(0) … g(reach − 1), over sources (`<eos>` last, then padding) of at least `reach` tokens each."""
    assert int(lengths_B.min()) >= reach
    beginning = Beginning()
    with torch.enable_grad():
        target_B1 = torch.full((len(source_BS), 1), sos, device=source_BS.device)
        state_BD = model.hidden(source_BS, target_B1, beginning)[:, 0]
        (x_BSD,) = beginning.found
        squares_BS = torch.zeros(source_BS.shape, device=x_BSD.device)
        for direction_D in directions_ND.to(state_BD):
            (gradient_BSD,) = torch.autograd.grad((state_BD @ direction_D).sum(), x_BSD, retain_graph=True)
            squares_BS += gradient_BSD.square().sum(dim=-1)
    back_BK = lengths_B[:, None].to(x_BSD.device) - 1 - torch.arange(reach, device=x_BSD.device)
    norms_BK = (squares_BS / len(directions_ND)).gather(1, back_BK).sqrt()
    return [float(norm) for norm in norms_BK.mean(dim=0)]


def directions(count: int, width: int, *, seed: int = 0) -> Tensor:
    """The same ones for a model of this width, whenever they are drawn."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, width, generator=random) / width**0.5
