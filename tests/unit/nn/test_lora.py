"""LoRA: trained and frozen weights, and merging."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from glassformer.nn.linear import Linear
from glassformer.nn.lora import LoRALinear, add_lora, merged
from glassformer.nn.probe import named_weights
from tests.families import bert, perturb, recurrent, transformer, vit


@pytest.mark.parametrize("relu", [False, True])
def test_the_layer_starts_as_it_was_and_equals_its_merged_weights(relu: bool) -> None:
    plain = perturb(Linear(7, 5, parts=3, relu=relu))
    layer, x = LoRALinear(plain, rank=2), torch.randn(11, 7)
    torch.testing.assert_close(layer(x), plain(x), rtol=0, atol=0)
    nn.init.normal_(layer.lora_B)
    assert not torch.allclose(layer(x), plain(x))
    torch.testing.assert_close(layer.merged()(x), layer(x))


def test_only_the_added_matrices_get_gradients_and_merging_is_undone() -> None:
    model = transformer().eval()
    names = [name for name, _ in named_weights(model)]
    assert add_lora(model, rank=3) == 2 * 4 + 3 * 7  # linear layers of 2 encoder and 3 decoder layers
    tokens = torch.arange(4, 9)[None]
    model(tokens, tokens).sum().backward()
    trained = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert trained == {name for name, _ in named_weights(model)} - set(names)
    for name in trained:
        nn.init.normal_(model.get_parameter(name), std=0.3)
    before = model(tokens, tokens)
    with merged(model) as plain:
        assert sorted(name for name, _ in named_weights(plain)) == sorted(names)
        torch.testing.assert_close(plain(tokens, tokens), before, rtol=1e-4, atol=1e-4)
    assert model(tokens, tokens).equal(before)


@pytest.mark.parametrize(("build", "layers"), [(bert, 2), (vit, 2), (recurrent, 0)])
def test_every_family_with_attention_can_have_an_adapter(build: Callable[[], nn.Module], layers: int) -> None:
    assert add_lora(build(), rank=2) == 4 * layers  # W_QKV, W_O and both of the feed-forward network
