"""Language models: how many tokens each depends on, and their equations."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.models.recurrent_lm import RecurrentLM
from glassformer.models.window import Window
from glassformer.settings import RecurrentLMSettings, WindowSettings

V = 53


def window(size: int) -> Window:
    torch.manual_seed(1)
    return Window(WindowSettings(window=size, d_model=7, d_hidden=11, dropout=0.0), V, pad=0).eval()


def recurrent(cell: str) -> RecurrentLM:
    torch.manual_seed(1)
    return RecurrentLM(RecurrentLMSettings(cell=cell, layers=2, d_model=7, dropout=0.0), V, pad=0).eval()


@pytest.mark.parametrize("size", [1, 3, 5])
@torch.no_grad()
def test_a_window_model_depends_on_its_window_only(padded: Any, size: int) -> None:
    model, tokens_BT = window(size), padded([11, 11])
    before_BTV = model(tokens_BT)
    for t in range(11):
        changed_BT = tokens_BT.clone()
        changed_BT[:, t] = tokens_BT[:, t] % (V - 3) + 3
        differs_T = (model(changed_BT) != before_BTV).any(dim=-1).all(dim=0)
        assert differs_T.tolist() == [t <= place < t + size for place in range(11)]


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@torch.no_grad()
def test_a_recurrent_model_depends_on_all_tokens_before(padded: Any, cell: str) -> None:
    model, tokens_BT = recurrent(cell), padded([11, 11])
    changed_BT = tokens_BT.clone()
    changed_BT[:, 0] = tokens_BT[:, 0] % (V - 3) + 3
    assert (model(changed_BT) != model(tokens_BT)).any(dim=-1).all()


@torch.no_grad()
def test_window_model_by_the_equation_of_bengio(padded: Any) -> None:
    model, tokens_1T = window(3), padded([5])
    x = [torch.zeros(7)] * 2 + list(model.embedding(tokens_1T)[0])
    for t in range(5):
        hidden_F = torch.tanh(model.combine.weight @ torch.cat(x[t : t + 3]) + model.combine.bias)
        torch.testing.assert_close(model(tokens_1T)[0, t], model.output.weight_VD @ hidden_F)


@pytest.mark.parametrize("model", [window(3), recurrent("lstm")], ids=["window", "recurrent"])
def test_hidden_and_output_layer_give_logits_and_loss(padded: Any, model: Any) -> None:
    tokens_BT = padded([6, 6])
    hidden_BTD = model.hidden(tokens_BT[:, :-1])
    logits_BTV = model(tokens_BT[:, :-1])
    torch.testing.assert_close(hidden_BTD @ model.output.weight_VD.T, logits_BTV)
    loss = model.output.loss(hidden_BTD.flatten(0, 1), tokens_BT[:, 1:].flatten(), 0.0)
    expected = torch.nn.functional.cross_entropy(logits_BTV.flatten(0, 1), tokens_BT[:, 1:].flatten(), reduction="sum")
    torch.testing.assert_close(loss, expected)
    assert model.max_positions is None
