"""Embeddings are multiplied by √d_model."""

from __future__ import annotations

import pytest
import torch

from glassformer.nn.embedding import Embedding

V, D = 53, 21


def test_embeddings_are_scaled_by_sqrt_d_model() -> None:
    embedding = Embedding(V, D)
    tokens_BT = torch.tensor([[3, 52, 3], [0, 7, 1]])
    x_BTD = embedding(tokens_BT)
    assert x_BTD.shape == (2, 3, D)
    torch.testing.assert_close(x_BTD[1, 1], embedding.weight_VD[7] * 21**0.5)
    torch.testing.assert_close(x_BTD[0, 2], embedding.weight_VD[3] * 21**0.5)


def test_initial_embeddings_have_the_scale_of_positions() -> None:
    torch.manual_seed(0)
    x = Embedding(1009, D)(torch.arange(1009))
    assert x.std().item() == pytest.approx(1, rel=0.03)
