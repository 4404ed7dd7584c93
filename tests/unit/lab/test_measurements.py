"""Measurements of systems, on models with known results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.data.parallel_text import SentencePair
from glassformer.lab.ladder.measurements import source_gain

EOS, VOCAB = 2, 11


class Letters:
    """a is 3, b is 4 …"""

    def encode_batch(self, lines: list[str]) -> list[list[int]]:
        return [[ord(letter) - ord("a") + 3 for letter in line] for line in lines]


def copier(source_BS: Tensor, target_BT: Tensor) -> Tensor:
    """Return logits that prefer, by a factor of e², the source token at the same position."""
    logits_BTV = torch.zeros(*target_BT.shape, VOCAB)
    for t in range(min(source_BS.shape[1], target_BT.shape[1])):
        logits_BTV[torch.arange(len(source_BS)), t, source_BS[:, t]] = 2.0
    return logits_BTV


def language_model(source_BS: Tensor, target_BT: Tensor) -> Tensor:
    return torch.linspace(0, 1, VOCAB).expand(*target_BT.shape, VOCAB)


@pytest.mark.parametrize(("model", "gain"), [(copier, 2.0 * 3 / 4), (language_model, 0.0)])
def test_source_gain_is_0_if_the_source_is_not_used(model: Any, gain: float) -> None:
    run: Any = SimpleNamespace(
        model=model, tokenizer=Letters(), settings=SimpleNamespace(decode=SimpleNamespace(max_source=9))
    )
    lines = ["abc", "bca", "def", "efd"]  # with another source, no letter is right, but <eos> is
    pairs = [SentencePair(line, line, 1, "text") for line in lines]
    assert source_gain(run, pairs) == pytest.approx(gain, abs=1e-3)
