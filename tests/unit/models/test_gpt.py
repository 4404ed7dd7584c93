"""GPT: its equations, its initial weights, and its maximum length."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from glassformer.decoding.generate import generate
from glassformer.decoding.sampling import Sampling
from glassformer.models.gpt import DEVIATION, GPT
from glassformer.settings import GPTSettings

V, D, LONGEST = 53, 21, 11


def gpt(**over: Any) -> GPT:
    torch.manual_seed(1)
    sizes = {"layers": 2, "d_model": D, "heads": 3, "d_ff": 37, "max_positions": LONGEST, "dropout": 0.0}
    return GPT(GPTSettings(**(sizes | over)), V, pad=0).eval()


@torch.no_grad()
def test_equals_torch_transformer_layers(padded: Any, enliven: Any) -> None:
    model, tokens_BT = enliven(gpt()), padded([7, 7])
    x = model.embedding.weight_VD[tokens_BT] + model.positions.positions.weight_TD[:7]
    future = torch.ones(7, 7, dtype=torch.bool).triu(1)

    def normed(norm: Any, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (D,), norm.weight, norm.bias)

    for layer in model.decoder:
        y = normed(layer.self_residual.norm, x)
        query, key, value = (
            part.unflatten(2, (3, 7)).transpose(1, 2)
            for part in F.linear(y, *layer.self_attention.query_key_value.parameters()).chunk(3, dim=2)
        )
        scores = (query @ key.mT / 7**0.5).masked_fill(future, float("-inf"))
        context = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
        x = x + F.linear(context, *layer.self_attention.output.parameters())
        y = normed(layer.feed_forward_residual.norm, x)
        y = F.gelu(F.linear(y, *layer.feed_forward.expand.parameters()), approximate="tanh")
        x = x + F.linear(y, *layer.feed_forward.contract.parameters())
    expected = normed(model.decoder_norm, x) @ model.embedding.weight_VD.T
    torch.testing.assert_close(model(tokens_BT), expected, atol=1e-5, rtol=1e-5)


def test_initial_weights_of_residual_projections_are_scaled() -> None:
    model = gpt(layers=8, d_model=96, d_ff=384)
    deviation = {name: float(weight.detach().std()) for name, weight in model.named_parameters() if weight.dim() == 2}
    assert deviation["decoder.3.self_attention.query_key_value.weight"] == pytest.approx(DEVIATION, rel=0.05)
    assert deviation["decoder.3.self_attention.output.weight"] == pytest.approx(DEVIATION / 4, rel=0.05)
    assert deviation["decoder.7.feed_forward.contract.weight"] == pytest.approx(DEVIATION / 4, rel=0.05)
    assert deviation["embedding.weight_VD"] == pytest.approx(DEVIATION, rel=0.05)


@torch.inference_mode()
def test_many_tokens_read_in_one_pass_are_many_steps(padded: Any, enliven: Any) -> None:
    model, tokens_BT = enliven(gpt()), padded([9, 9])
    stepped = model.start()
    for token_B in tokens_BT.T:
        expected_BV, stepped = model.step(token_B, stepped)
    state = model.start()
    for part_BT in tokens_BT.split([4, 1, 3, 1], dim=1):  # after each other, as prompts of a dialogue
        logits_BV, state = model.read(part_BT, state)
    torch.testing.assert_close(logits_BV, expected_BV, atol=1e-5, rtol=1e-5)
    assert state.steps == stepped.steps
    following = [model.step(padded([1, 1])[:, 0], of)[0] for of in (state, stepped)]
    torch.testing.assert_close(*following, atol=1e-5, rtol=1e-5)


def test_generation_continues_beyond_max_positions(padded: Any) -> None:
    """The first token after a full window is predicted from the second half of the window."""
    model = gpt()
    beginning_T = padded([LONGEST])[0]
    first, second, *rest = islice(generate(model, beginning_T, Sampling(top_k=1)), 30)
    with torch.no_grad():
        assert first == int(model(beginning_T[None])[0, -1].argmax())
        seen_T = torch.cat([beginning_T, torch.tensor([first])])[LONGEST - LONGEST // 2 :]
        assert second == int(model(seen_T[None])[0, -1].argmax())
    assert len(rest) == 28
    with pytest.raises(ValueError, match="beyond the 11"):
        model(padded([LONGEST + 1]))
