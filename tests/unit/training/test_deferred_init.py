"""A model that is built on the meta device gets the weights that its constructor would have drawn, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.inference.run import build_model, weights_of
from glassformer.settings import nest, resolve
from glassformer.training.deferred_init import defer

TRAINING = {"steps": 1, "batch_tokens": 64, "lr": 1e-3, "warmup": 1, "validate_every": 1, "checkpoint_every": 1}
SIZES = {"d_model": 14, "dropout": 0.1}
LAYERS = {"layers": 2, "heads": 2, "d_ff": 23}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("translation", SIZES | LAYERS),
    "untied, batch norm": ("translation", SIZES | LAYERS | {"tie_embeddings": False, "ablations": ["batch_norm"]}),
    "learned positions": ("translation", SIZES | LAYERS | {"positions": "learned", "max_positions": 19}),
    "lstm": ("translation", SIZES | {"family": "recurrent", "layers": 2, "cell": "lstm"}),
    "gru": ("translation", SIZES | {"family": "recurrent", "layers": 1, "cell": "gru", "attention": "dot"}),
    "gpt": ("language_model", SIZES | LAYERS | {"family": "gpt", "max_positions": 19}),
    "window": ("language_model", SIZES | {"family": "window", "window": 3, "d_hidden": 11}),
    "recurrent_lm": ("language_model", SIZES | {"family": "recurrent_lm", "layers": 2}),
    "masked language model": ("masked_language_model", SIZES | LAYERS | {"family": "bert", "max_positions": 19}),
    "classifier": ("classification", SIZES | LAYERS | {"family": "bert", "max_positions": 19}),
    "tagger": ("tagging", SIZES | LAYERS | {"family": "bert", "max_positions": 19}),
}


def builder(task: str, model: dict[str, Any]) -> Callable[[], nn.Module]:
    given: dict[str, Any] = {"task": task, "data.train": ["a", "b"], "tokenizer.vocab": 300, "train.patience": 0}
    given |= {f"train.{name}": value for name, value in TRAINING.items()}
    settings = resolve(nest(given | {f"model.{name}": value for name, value in model.items()}))
    return lambda: build_model(settings, 307, 5)


@pytest.mark.parametrize(("task", "model"), MODELS.values(), ids=MODELS)
def test_the_weights_are_those_of_the_constructor(task: str, model: dict[str, Any]) -> None:
    build = builder(task, model)
    torch.manual_seed(3)
    expected = weights_of(build())
    deferred = defer(build, seed=3)
    places = weights_of(deferred.model)
    assert {name: tensor.shape for name, tensor in places.items()} == {n: t.shape for n, t in expected.items()}
    assert all(tensor.is_meta for tensor in places.values())
    found: dict[str, Tensor] = {name: torch.full(tensor.shape, torch.nan) for name, tensor in places.items()}
    torch.manual_seed(99)
    for name, start, values in deferred.replay():
        if name:  # not a tensor that the model replaced (an ablation replaces the normalization)
            found[name].view(-1)[start : start + values.numel()] = values.view(-1)
    assert all(found[name].equal(tensor) for name, tensor in expected.items())


class Unrecorded(nn.Module):
    def __init__(self, value: Callable[[], Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(value())


@pytest.mark.parametrize("value", [lambda: torch.empty(7), lambda: torch.ones(7).mul_(2), lambda: torch.arange(7.0)])
def test_an_initialization_that_cannot_be_repeated_is_refused(value: Callable[[], Tensor]) -> None:
    with pytest.raises(NotImplementedError):
        defer(lambda: Unrecorded(value), seed=0)
