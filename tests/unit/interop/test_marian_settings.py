"""A Transformer with settings that Marian does not have is not exported."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.errors import UserError
from glassformer.interop.marian import MarianConverter
from glassformer.settings import Settings, nest, resolve

SIZES = {"encoder_layers": 3, "decoder_layers": 2, "d_model": 14, "heads": 7, "d_ff": 11, "dropout": 0.1}
TRAIN = {"steps": 5, "batch_tokens": 13, "lr": 1e-3, "warmup": 2, "validate_every": 3, "checkpoint_every": 3}


def transformer(**over: Any) -> Settings:
    raw = {"data.train": ["a.en", "a.de"], "tokenizer.vocab": 307, "train": TRAIN | {"patience": 0}}
    return resolve(nest(raw | {"model": SIZES | over}))


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [("ablations", ["no_residual"], "[]"), ("positions", "learned", "sinusoidal")],
)
def test_settings_that_marian_lacks_are_refused(name: str, value: Any, right: str) -> None:
    with pytest.raises(UserError) as refused:
        MarianConverter().config(transformer(**{name: value}), 307, [])
    assert refused.value.message == f"Hugging Face's Marian does not support {name} = {value}."
    assert (refused.value.where, refused.value.hint) == (
        f"model.{name}",
        f"export a model trained with model.{name}={right}",
    )


def test_the_settings_of_the_paper_are_accepted() -> None:
    config = MarianConverter().config(transformer(), 307, [])
    sizes = ("d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_ffn_dim", "vocab_size")
    assert [config[name] for name in sizes] == [14, 3, 2, 7, 11, 307]
