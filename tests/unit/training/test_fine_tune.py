"""Adapters are refused for models that cannot have one, before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.errors import UserError
from glassformer.inference.run import build_on_meta
from glassformer.settings import resolve
from glassformer.training.fine_tune import add_adapter
from tests.untrained_runs import TRAIN

SIZES = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "dropout": 0.0}
TRANSFORMER = SIZES | {"family": "transformer", "heads": 2, "d_ff": 24}


def note(model: dict[str, Any]) -> str:
    raw = {"data": {"train": ["a", "b"]}, "tokenizer": {"vocab": 300}, "model": model, "train": TRAIN | {"lora": 2}}
    settings = resolve(raw)
    return add_adapter(build_on_meta(settings, 31), settings, prefix="")


def test_the_note_counts_trained_and_frozen_weights() -> None:
    # (inputs + outputs) · rank of self-attention (twice), encoder–decoder attention and feed-forward network (twice)
    trained = 2 * (2 * (16 + 48 + 16 + 16) + (16 + 16) + (16 + 32) + (16 + 16) + 2 * (16 + 24 + 24 + 16))
    assert f"LoRA of rank 2: {trained:,} weights are trained" in note(TRANSFORMER)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SIZES | {"family": "recurrent"}, "needs a model with attention layers; model.family=recurrent has none"),
        (TRANSFORMER | {"ablations": ["batch_norm"]}, "needs a model without ablations"),
    ],
)
def test_other_models_are_refused(model: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        note(model)
