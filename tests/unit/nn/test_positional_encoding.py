"""Positions against the formula of §3.5, one number at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from glassformer.nn.attention import rotate
from glassformer.nn.positional_encoding import (
    AddPositions,
    ConcatenatePositions,
    LearnedPositions,
    NoPositions,
    RotaryPositions,
    SinusoidalPositions,
    sinusoids,
)
from glassformer.nn.probe import Recorder


def formula(position: int, dimension: int, width: int) -> float:
    even = dimension - dimension % 2  # 2i, of both PE(pos, 2i) and PE(pos, 2i+1)
    angle = position / 10000 ** (even / width)
    return math.sin(angle) if dimension % 2 == 0 else math.cos(angle)


@pytest.mark.parametrize("width", [6, 13])
def test_sines_and_cosines_alternate(width: int) -> None:
    table = sinusoids(31, width)
    expected = [[formula(t, d, width) for d in range(width)] for t in range(31)]
    torch.testing.assert_close(table, torch.tensor(expected), atol=1e-7, rtol=0)


def test_the_last_of_a_thousand_positions_is_still_exact() -> None:
    row = sinusoids(1000, 8)[999]  # an angle in single precision would be off by 1e-5
    torch.testing.assert_close(row, torch.tensor([formula(999, d, 8) for d in range(8)]), atol=1e-7, rtol=0)


def test_a_longer_sentence_makes_the_table_grow_and_changes_nothing() -> None:
    positions = SinusoidalPositions(13)
    before = positions(torch.empty(1, 256, 13), 0).clone()
    grown = positions(torch.empty(1, 257, 13), 0)
    assert torch.equal(grown[:256], before)
    assert torch.equal(grown, sinusoids(257, 13))
    assert torch.equal(positions(torch.empty(1, 3, 13), 1000), sinusoids(1003, 13)[1000:])
    assert not positions.state_dict()


@pytest.mark.parametrize("combine", ["add", "concatenate", "rotate"])
def test_a_table_that_grew_while_translating_can_train(combine: str) -> None:
    table, rotary = SinusoidalPositions(6), RotaryPositions(6, heads=1)
    positions: Callable[[torch.Tensor], torch.Tensor] = {
        "add": AddPositions(table),
        "concatenate": ConcatenatePositions(table, 6),
        "rotate": lambda x_BTD: rotate(x_BTD[:, None], rotary(x_BTD, 0)),
    }[combine]
    with torch.inference_mode():
        positions(torch.zeros(1, 300, 6))
    x_BTD = torch.zeros(1, 300, 6, requires_grad=True)
    positions(x_BTD).sum().backward()
    assert x_BTD.grad is not None
    assert (x_BTD.grad != 0).all()


def test_addition() -> None:
    x_BTD = torch.randn(3, 5, 13)
    expected = x_BTD + torch.tensor([[formula(t, d, 13) for d in range(13)] for t in range(5)])
    torch.testing.assert_close(AddPositions(SinusoidalPositions(13))(x_BTD), expected)


def test_learned_positions_are_rows_of_a_matrix() -> None:
    learned = LearnedPositions(13, max_positions=7)
    x_BTD = torch.randn(3, 5, 13)
    torch.testing.assert_close(AddPositions(learned)(x_BTD), x_BTD + learned.weight_TD[:5])
    AddPositions(learned)(x_BTD).sum().backward()
    assert learned.weight_TD.grad is not None
    assert learned.weight_TD.grad[:, 0].tolist() == [3, 3, 3, 3, 3, 0, 0]


def test_learned_positions_beyond_the_maximum_are_an_error() -> None:
    learned = LearnedPositions(13, max_positions=7)
    one_1TD = torch.empty(1, 1, 13)
    assert torch.equal(learned(one_1TD, 6), learned.weight_TD[6:])
    with pytest.raises(ValueError, match="position 8 is beyond the 7 that were learned"):
        learned(one_1TD, 7)


def test_concatenation_by_its_formula() -> None:
    torch.manual_seed(0)
    positions = ConcatenatePositions(SinusoidalPositions(13), 13)
    x_BTD = torch.randn(3, 5, 13)
    table = torch.tensor([[formula(t, d, 13) for d in range(13)] for t in range(5)])
    of_x, of_position = positions.project.weight[:, :13], positions.project.weight[:, 13:]
    expected = x_BTD @ of_x.T + table @ of_position.T + positions.project.bias
    torch.testing.assert_close(positions(x_BTD), expected)


def test_no_positions_changes_nothing() -> None:
    x_BTD = torch.randn(3, 5, 13)
    assert torch.equal(NoPositions()(x_BTD, start=4), x_BTD)


@pytest.mark.parametrize("table", [SinusoidalPositions(13), LearnedPositions(13, 17)], ids=["sinusoidal", "learned"])
@pytest.mark.parametrize("combine", ["add", "concatenate"])
def test_one_token_at_a_time_gets_the_same_positions(
    table: SinusoidalPositions | LearnedPositions, combine: str
) -> None:
    positions = AddPositions(table) if combine == "add" else ConcatenatePositions(table, 13)
    x_BTD = torch.randn(3, 17, 13)
    steps = [positions(x_BTD[:, t : t + 1], start=t) for t in range(17)]
    torch.testing.assert_close(torch.cat(steps, dim=1), positions(x_BTD))


def test_the_probe_sees_the_positions() -> None:
    for positions in (AddPositions(SinusoidalPositions(13)), ConcatenatePositions(SinusoidalPositions(13), 13)):
        seen = Recorder()
        positions(torch.zeros(3, 5, 13), start=2, probe=seen)
        assert torch.equal(seen.tensors["positions"], sinusoids(7, 13)[2:])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_rotated_scores_depend_on_the_distance_only(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 7, 1, 1, 10, dtype=dtype).unbind()
    rotation_TE = RotaryPositions(30, 3)(torch.zeros(1, 23, 30), start=0)

    def score(at_query: int, at_key: int) -> torch.Tensor:
        rotated = rotate(query, rotation_TE[at_query, None]), rotate(key, rotation_TE[at_key, None])
        return rotated[0].double() @ rotated[1].double().mT

    tolerance = {"rtol": 0, "atol": 1e-5 if dtype == torch.float64 else 0.1}
    torch.testing.assert_close(score(5, 3), score(19, 17), **tolerance)
    torch.testing.assert_close(score(4, 4), query.double() @ key.double().mT, **tolerance)
    assert (score(5, 3) - score(3, 5)).abs().max() > 0.5
