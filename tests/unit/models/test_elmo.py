"""ELMo: two independent language models."""

from __future__ import annotations

import pytest
import torch

from glassformer.models.elmo import ELMo, reverse
from glassformer.settings import ELMoSettings

PAD, VOCAB, T = 0, 31, 9


def elmo(cell: str = "lstm") -> ELMo:
    torch.manual_seed(3)
    settings = ELMoSettings.model_validate({"cell": cell, "layers": 2, "d_model": 12, "dropout": 0.0})
    return ELMo(settings, VOCAB, pad=PAD).eval()


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("place", [0, 4, T - 1])
def test_each_direction_depends_on_one_side_only(cell: str, place: int) -> None:
    model, tokens_1T = elmo(cell), torch.randint(1, VOCAB, (1, T))
    other_1T = tokens_1T.clone()
    other_1T[0, place] = tokens_1T[0, place] % (VOCAB - 1) + 1
    (there, back), (there_other, back_other) = model.states(tokens_1T), model.states(other_1T)
    same_there = (there == there_other).all(dim=2)[0].tolist()
    same_back = (back == back_other).all(dim=2)[0].tolist()
    assert same_there == [at < place for at in range(T)]
    assert same_back == [at > place for at in range(T)]


def test_the_backward_model_reads_the_reversed_text() -> None:
    model, tokens_BT = elmo(), torch.randint(1, VOCAB, (3, T))
    model.backwards.load_state_dict(model.forwards.state_dict())
    there_BTD, back_BTD = model.states(tokens_BT)
    there_reversed_BTD, back_reversed_BTD = model.states(tokens_BT.flip(1))
    torch.testing.assert_close(back_BTD, there_reversed_BTD.flip(1))
    torch.testing.assert_close(there_BTD, back_reversed_BTD.flip(1))


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_padding_is_not_read(cell: str) -> None:
    model, tokens_BT = elmo(cell), torch.randint(1, VOCAB, (2, T))
    tokens_BT[0, 5:] = PAD
    hidden_BTD = model(tokens_BT)
    assert hidden_BTD.shape == (2, T, model.width)
    torch.testing.assert_close(hidden_BTD[:1, :5], model(tokens_BT[:1, :5]))


def test_rows_are_reversed_within_their_lengths() -> None:
    rows_BT1 = torch.tensor([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])[:, :, None]
    assert reverse(rows_BT1, torch.tensor([3, 5]))[:, :, 0].tolist() == [[3, 2, 1, 0, 0], [8, 7, 6, 5, 4]]
    assert torch.equal(reverse(rows_BT1, None), rows_BT1.flip(1))
