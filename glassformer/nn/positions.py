"""Where a token stands (§3.5): attention alone does not know, so its embedding is told."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.nn.linear import Linear
from glassformer.nn.probe import NO_PROBE, Probe


def sinusoids(length: int, width: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)) and PE(pos, 2i+1) = cos(pos / 10000^(2i/d)), interleaved. length×width."""
    position_T1 = torch.arange(length, dtype=torch.float64)[:, None]
    even_E = torch.arange(0, width, 2, dtype=torch.float64)
    angle_TE = position_T1 / 10000 ** (even_E / width)
    table_TD = torch.empty(length, width, dtype=torch.float64)
    table_TD[:, 0::2] = angle_TE.sin()
    table_TD[:, 1::2] = angle_TE[:, : width // 2].cos()
    return table_TD.float()


class SinusoidalPositions(nn.Module):
    """The paper's fixed sinusoids: nothing to learn, and no longest sentence."""

    longest: int | None = None

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        # A function of its size alone, so not saved with the weights; grows when a longer sentence comes.
        self._table_TD: Tensor | None = None

    def forward(self, start: int, end: int, device: torch.device | None = None) -> Tensor:
        if self._table_TD is None or end > len(self._table_TD) or device not in (None, self._table_TD.device):
            self._table_TD = sinusoids(max(256, 2 * end), self.d_model).to(device)
        return self._table_TD[start:end]


class LearnedPositions(nn.Module):
    """One learned vector a position, up to a longest sentence (§3.5 compares the two).

    deviation  of fresh vectors, 1/√d if none is said
    """

    def __init__(self, d_model: int, longest: int, deviation: float | None = None) -> None:
        super().__init__()
        self.longest = longest
        self.weight_TD = nn.Parameter(torch.empty(longest, d_model).normal_(std=deviation or d_model**-0.5))

    def forward(self, start: int, end: int, device: torch.device | None = None) -> Tensor:
        if end > self.longest:
            raise ValueError(f"position {end} is beyond the {self.longest} that were learned")
        return self.weight_TD[start:end]


class AddPositions(nn.Module):
    """Embedding + position: what the paper does."""

    def __init__(self, positions: SinusoidalPositions | LearnedPositions) -> None:
        super().__init__()
        self.positions = positions

    def forward(self, x_BTD: Tensor, start: int = 0, probe: Probe = NO_PROBE) -> Tensor:
        return x_BTD + probe("positions", self.positions(start, start + x_BTD.shape[1], x_BTD.device))


class ConcatenatePositions(nn.Module):
    """Embedding beside position, brought back to the model width by a learned projection. Not in the paper."""

    def __init__(self, positions: SinusoidalPositions | LearnedPositions, d_model: int) -> None:
        super().__init__()
        self.positions = positions
        self.project = Linear(2 * d_model, d_model)

    def forward(self, x_BTD: Tensor, start: int = 0, probe: Probe = NO_PROBE) -> Tensor:
        position_TD = probe("positions", self.positions(start, start + x_BTD.shape[1], x_BTD.device))
        return self.project(torch.cat([x_BTD, position_TD.expand_as(x_BTD)], dim=-1))


class NoPositions(nn.Module):
    """Leaves the model blind to order: there to see what positions do."""

    def forward(self, x_BTD: Tensor, start: int = 0, probe: Probe = NO_PROBE) -> Tensor:
        return x_BTD
