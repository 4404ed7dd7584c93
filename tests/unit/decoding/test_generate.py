"""Generation with a language model after a prompt."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from torch import Tensor

from glassformer.decoding.generate import generate
from glassformer.decoding.sampling import Sampling
from glassformer.models.recurrent_lm import RecurrentLM
from glassformer.settings import RecurrentLMSettings


class Sum:
    """The next token is the sum of all before it, modulo seven; one other has a small chance."""

    def __init__(self, max_positions: int | None = None) -> None:
        self.max_positions = max_positions

    def start(self, memory: None, copies: int = 1) -> int:
        return 0

    def encode(self, source_BS: Tensor) -> None: ...

    def step(self, tokens_B: Tensor, state: int) -> tuple[Tensor, int]:
        state += int(tokens_B)
        logits_NV = torch.full((1, 7), float("-inf"))
        logits_NV[0, state % 7], logits_NV[0, (state + 1) % 7] = 3.0, 0.0
        return logits_NV, state


def test_every_token_is_conditioned_on_all_tokens_before_it() -> None:
    found = list(islice(generate(Sum(), torch.tensor([3, 5]), Sampling(top_k=1)), 5))
    assert found == [1, 2, 4, 1, 2]


def test_forbidden_tokens_are_never_generated() -> None:
    assert next(generate(Sum(), torch.tensor([3, 5]), Sampling(), forbidden=[1])) == 2


def test_sampling_depends_on_the_seed() -> None:
    def drawn(seed: int, temperature: float) -> list[int]:
        return list(islice(generate(Sum(), torch.tensor([3]), Sampling(temperature, seed=seed)), 40))

    assert drawn(1, 2.0) == drawn(1, 2.0) != drawn(2, 2.0)
    assert drawn(1, 0.01) == drawn(2, 0.01)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_generation_agrees_with_teacher_forcing(cell: str) -> None:
    torch.manual_seed(3)
    settings = RecurrentLMSettings(cell=cell, layers=2, d_model=13, dropout=0.0)
    model = RecurrentLM(settings, 53, pad=0).eval()
    beginning_T = torch.tensor([2, 7, 11])
    found = list(islice(generate(model, beginning_T, Sampling(top_k=1)), 9))
    whole_BT = torch.cat([beginning_T, torch.tensor(found)])[None]
    assert model(whole_BT)[0, 2:-1].argmax(dim=1).tolist() == found


@pytest.mark.parametrize("max_positions", [1, 2, 5, 6])
def test_a_sequence_beyond_max_positions_is_truncated_from_the_left(max_positions: int) -> None:
    for beginning in ([3], [3, 5, 1, 1, 2, 6, 4, 4, 1, 3, 2]):
        found = list(islice(generate(Sum(max_positions), torch.tensor(beginning), Sampling(top_k=1)), 20))
        seen = list(beginning)
        for token in found:  # truncated tokens are not read again
            while len(seen) > max_positions:
                seen = seen[max_positions - max_positions // 2 :]
            assert token == sum(seen) % 7
            seen.append(token)
