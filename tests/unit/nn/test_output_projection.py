"""The output layer: logits are products with the rows of its matrix, which may be that of the embedding."""

from __future__ import annotations

import torch

from glassformer.nn.embedding import Embedding
from glassformer.nn.loss import smoothed_cross_entropy_plain
from glassformer.nn.output_projection import OutputProjection

V, D = 53, 21


def test_logits_are_products_with_the_rows() -> None:
    embedding = Embedding(V, D)
    hidden_BTD = torch.randn(2, 3, D)
    logits_BTV = OutputProjection(embedding.weight_VD)(hidden_BTD)
    torch.testing.assert_close(logits_BTV, torch.einsum("btd,vd->btv", hidden_BTD, embedding.weight_VD))


def test_a_tied_matrix_learns_from_both_ends() -> None:
    embedding = Embedding(V, D)
    output = OutputProjection(embedding.weight_VD)
    weight = embedding.weight_VD
    assert output.weight_VD is weight
    tokens_BT, upstream = torch.tensor([[3, 5]]), torch.randn(1, 2, V)
    output(embedding(tokens_BT)).backward(upstream)
    as_output = upstream[0].T @ (weight[tokens_BT[0]] * 21**0.5)
    expected = as_output.index_add(0, tokens_BT[0], upstream[0] @ weight * 21**0.5)
    torch.testing.assert_close(weight.grad, expected, atol=1e-5, rtol=1e-5)


def test_the_loss_is_that_of_the_logits() -> None:
    output = OutputProjection(Embedding(V, D).weight_VD)
    hidden_ND, target_N = torch.randn(11, D), torch.randint(V, (11,))
    expected = torch.nn.functional.cross_entropy(output(hidden_ND), target_N, label_smoothing=0.2, reduction="sum")
    torch.testing.assert_close(output.loss(hidden_ND, target_N, 0.2), expected)
    torch.testing.assert_close(smoothed_cross_entropy_plain(hidden_ND, output.weight_VD, target_N, 0.2), expected)
