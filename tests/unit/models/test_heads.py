"""Recurrent encoders and the heads on them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.models.heads import Classifier, Tagger
from glassformer.models.recurrent_encoder import RecurrentEncoder
from glassformer.settings import RecurrentEncoderSettings

PAD, VOCAB, LABELS = 0, 53, 5
CELLS = ["rnn", "lstm", "gru"]


def encoder(cell: str = "gru", *, bidirectional: bool = True, layers: int = 2) -> RecurrentEncoder:
    torch.manual_seed(7)
    settings = RecurrentEncoderSettings(cell=cell, layers=layers, d_model=22, dropout=0.0, bidirectional=bidirectional)
    return RecurrentEncoder(settings, VOCAB, pad=PAD)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("head", [Classifier, Tagger])
def test_padding_and_batch_mates_change_nothing(head: Any, cell: str, bidirectional: bool, padded: Any) -> None:
    model = head(encoder(cell, bidirectional=bidirectional), LABELS).eval()
    tokens_BS = padded([11, 3, 7])
    together = model(tokens_BS)
    for row, length in enumerate([11, 3, 7]):
        alone = model(tokens_BS[row : row + 1, :length])[0]
        beside = together[row] if head is Classifier else together[row, :length]
        torch.testing.assert_close(beside, alone, atol=1e-6, rtol=1e-5)


def seen_from(model: Any, at: int) -> Tensor:
    """Return which of nine tokens the hidden state of one token depends on."""
    table = model.embedding.weight_VD
    tokens_BS = torch.arange(3, 12)[None]
    (gradient_VD,) = torch.autograd.grad(model(tokens_BS)[0, at].sum(), table)
    return gradient_VD[3:12].abs().sum(1) > 0


def test_the_context_of_one_and_of_both_directions() -> None:
    assert seen_from(encoder(bidirectional=False), 4).tolist() == [True] * 5 + [False] * 4
    assert seen_from(encoder(), 4).all()


def test_the_classifier_uses_max_pooling(padded: Any) -> None:
    model = Classifier(encoder(), LABELS).eval()
    tokens_BS = padded([6, 4])
    hidden_BSD = model.encoder(tokens_BS)
    pooled_BD = torch.stack([hidden_BSD[0].amax(0), hidden_BSD[1, :4].amax(0)])
    torch.testing.assert_close(model(tokens_BS), pooled_BD @ model.output.weight.T + model.output.bias)


def test_the_tagger_has_logits_for_every_token(padded: Any) -> None:
    model = Tagger(encoder(), LABELS).eval()
    tokens_BS = padded([6, 6])
    assert model(tokens_BS).shape == (2, 6, LABELS)
    torch.testing.assert_close(model(tokens_BS)[1, 2], model.output(model.encoder(tokens_BS)[1, 2]))
