"""The linear layer."""

from __future__ import annotations

import math

import pytest

from glassformer.nn.linear import Linear


def test_each_part_has_the_variance_of_its_own_shape() -> None:
    """The Xavier range of a D×D block is larger than that of the 3D×D matrix that contains it."""
    linear = Linear(101, 101, parts=3)
    bound = math.sqrt(6 / (101 + 101))
    for block in linear.weight.chunk(3):
        assert block.abs().max().item() == pytest.approx(bound, rel=0.01)
    assert linear.bias.abs().sum() == 0
