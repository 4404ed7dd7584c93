"""The gradient through time, against closed forms and finite differences."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.lab.gradient_norms import EMBEDDING, directions, gradient_through_time
from glassformer.nn.probe import NO_PROBE, Probe
from tests.families import EOS, PAD, SOS, VOCAB, recurrent


class LinearRNN(nn.Module):
    """h_t = W·h_{t−1} + U·x_t, so ∂h_S/∂x_{S−k} = Wᵏ·U whatever it reads."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, inputs)
        self.w_DD = nn.Parameter(torch.randn(width, width) / width)
        self.u_DI = nn.Parameter(torch.randn(width, inputs))

    def hidden(self, source_BS: Tensor, target_BT: Tensor, probe: Probe = NO_PROBE) -> Tensor:
        x_BSI = probe.at("encoder")("embedding", self.embedding(source_BS))
        h_BD = x_BSI.new_zeros(len(x_BSI), len(self.w_DD))
        for t in range(x_BSI.shape[1]):
            real_B1 = (source_BS[:, t] != PAD)[:, None]
            h_BD = torch.where(real_B1, h_BD @ self.w_DD.T + x_BSI[:, t] @ self.u_DI.T, h_BD)
        return h_BD[:, None]


def test_a_linear_network_has_a_closed_form(padded: Any) -> None:
    model, source_BS = LinearRNN(5, 7), padded([11, 6, 8])
    found = gradient_through_time(model, source_BS, torch.tensor([11, 6, 8]), SOS, reach=6, directions_ND=torch.eye(7))
    powers = [torch.linalg.matrix_power(model.w_DD, k) @ model.u_DI for k in range(6)]
    assert found == pytest.approx([jacobian.detach().norm().item() / 7**0.5 for jacobian in powers], rel=1e-5)


def test_random_directions_estimate_the_whole_jacobian() -> None:
    model, source_BS = LinearRNN(5, 7), torch.randint(3, VOCAB, (1, 4))
    given = {"reach": 4, "directions_ND": directions(4000, 7)}
    estimated = gradient_through_time(model, source_BS, torch.tensor([4]), SOS, **given)
    exact = gradient_through_time(model, source_BS, torch.tensor([4]), SOS, reach=4, directions_ND=torch.eye(7))
    assert estimated == pytest.approx(exact, rel=0.05)


class Nudge(Probe):
    """Adds a little to one number of the source's embeddings."""

    def __init__(self, place: tuple[int, int], size: float, prefix: str = "") -> None:
        self.place, self.size, self.prefix = place, size, prefix

    def at(self, *path: str | int) -> Probe:
        return Nudge(self.place, self.size, self.prefix + "".join(f"{part}." for part in path))

    def __call__(self, name: str, tensor: Tensor, operation: Any = None, *operands: Any) -> Tensor:
        if self.prefix + name == EMBEDDING:
            tensor = tensor.clone()
            tensor[0, self.place[0], self.place[1]] += self.size
        return tensor


def models(tiny_model: Any) -> dict[str, nn.Module]:
    sizes: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 6}
    made: dict[str, nn.Module] = {"transformer": tiny_model(d_model=6, heads=2, d_ff=7)}
    for name, over in (("lstm", {"cell": "lstm", "attention": "none"}), ("gru", {"cell": "gru"})):
        made[name] = recurrent(**sizes, **over).eval()
    return made


@pytest.mark.parametrize("name", ["transformer", "lstm", "gru"])
def test_real_models_agree_with_finite_differences(tiny_model: Any, name: str) -> None:
    model: Any = models(tiny_model)[name].requires_grad_(False)  # as a run is loaded
    source_1S = torch.tensor([[7, 23, 11, 5, EOS]])
    u_D = torch.randn(6)
    found = gradient_through_time(model, source_1S, torch.tensor([5]), SOS, reach=5, directions_ND=u_D[None])

    def value(place: tuple[int, int], size: float) -> float:
        return float(model.hidden(source_1S, torch.tensor([[SOS]]), Nudge(place, size))[0, 0] @ u_D)

    step = 1e-2
    for k, norm in enumerate(found):
        slopes = [(value((4 - k, i), step) - value((4 - k, i), -step)) / (2 * step) for i in range(6)]
        assert norm == pytest.approx(float(torch.tensor(slopes).norm()), rel=0.02, abs=1e-3)
