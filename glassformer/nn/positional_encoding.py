"""Positional encoding (§3.5): attention does not know the order of the tokens, so it is added to their embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.nn.linear import Linear
from glassformer.nn.probe import NO_PROBE, Probe
from glassformer.reference import embeddings as ops
from glassformer.reference.layers import add


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
    """The paper's fixed sinusoids: no parameters, and no maximum length."""

    max_positions: int | None = None

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        # Computed from its size alone, so it is not saved with the weights; it grows for longer sentences.
        self._table_TD: Tensor | None = None

    def forward(self, x_BTD: Tensor, start: int, probe: Probe = NO_PROBE) -> Tensor:
        """Return the encodings of the positions of x, the first of which is `start`. T×D."""
        position_TD = self.rows(start, start + x_BTD.shape[1], x_BTD.device)
        return probe("positions", position_TD, ops.sinusoidal_positions, x_BTD)

    def rows(self, start: int, end: int, device: torch.device) -> Tensor:
        """Return the rows of the table from `start` to `end`."""
        if self._table_TD is None or end > len(self._table_TD) or device != self._table_TD.device:
            # A table of validation, in inference mode, could not be multiplied by queries and keys in training.
            with torch.inference_mode(mode=False):
                self._table_TD = sinusoids(max(256, 2 * end), self.d_model).to(device)
        return self._table_TD[start:end]


class LearnedPositions(nn.Module):
    """One learned vector per position, up to a maximum length (§3.5 compares the two).

    `deviation` is the standard deviation of the initial vectors, 1/√d by default.
    """

    def __init__(self, d_model: int, max_positions: int, deviation: float | None = None) -> None:
        super().__init__()
        self.max_positions = max_positions
        self.weight_TD = nn.Parameter(torch.empty(max_positions, d_model).normal_(std=deviation or d_model**-0.5))

    def forward(self, x_BTD: Tensor, start: int, probe: Probe = NO_PROBE) -> Tensor:
        """Return the vectors of the positions of x, the first of which is `start`. T×D."""
        end = start + x_BTD.shape[1]
        if end > self.max_positions:
            raise ValueError(f"position {end} is beyond the {self.max_positions} that were learned")
        return probe("positions", self.weight_TD[start:end], ops.learned_positions, self.weight_TD, x_BTD)


class RotaryPositions(nn.Module):
    """Rotary positions (RoPE; Su et al., 2021), the angles of `rotate` for queries and keys. Not in the paper.

    The angles are those of the paper's sinusoids. A score then depends on the two positions only through their
    difference.
    """

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.sinusoids = SinusoidalPositions(d_model // heads)

    def forward(self, x_BTD: Tensor, start: int, probe: Probe = NO_PROBE) -> Tensor:
        """Return sines and cosines of the positions of x, the first of which is `start`. T×E, interleaved."""
        rotation_TE = self.sinusoids.rows(start, start + x_BTD.shape[1], x_BTD.device)
        return probe("rotation", rotation_TE, ops.rotary_positions, x_BTD, self.heads)


class AddPositions(nn.Module):
    """Embedding + positional encoding, as in the paper."""

    def __init__(self, positions: SinusoidalPositions | LearnedPositions) -> None:
        super().__init__()
        self.positions = positions

    def forward(self, x_BTD: Tensor, start: int = 0, probe: Probe = NO_PROBE, name: str = "input") -> Tensor:
        position_TD = self.positions(x_BTD, start, probe)
        return probe(name, x_BTD + position_TD, add, x_BTD, position_TD)


class ConcatenatePositions(nn.Module):
    """Embedding and positional encoding concatenated, then projected to the model width. Not in the paper."""

    def __init__(self, positions: SinusoidalPositions | LearnedPositions, d_model: int) -> None:
        super().__init__()
        self.positions = positions
        self.project = Linear(2 * d_model, d_model)

    def forward(self, x_BTD: Tensor, start: int = 0, probe: Probe = NO_PROBE, name: str = "input") -> Tensor:
        position_TD = self.positions(x_BTD, start, probe)
        both_BTD = torch.cat([x_BTD, position_TD.expand_as(x_BTD)], dim=-1)
        return probe(name, self.project(both_BTD), ops.concat_positions, x_BTD, position_TD, *self.project.part())


class NoPositions(nn.Module):
    """No positional encoding: the model does not know the order of its input."""

    def forward(self, x_BTD: Tensor, start: int = 0, probe: Probe = NO_PROBE, name: str = "input") -> Tensor:
        return probe(name, x_BTD)
