"""A model with settings that the Hugging Face model does not have is not exported."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.errors import UserError
from glassformer.interop.bert import BertConverter
from glassformer.interop.converter import HuggingFaceConverter
from glassformer.interop.gpt2 import GPT2Converter
from glassformer.interop.marian import MarianConverter
from glassformer.interop.pegasus import PegasusConverter
from glassformer.settings import Settings, nest, resolve

SIZES = {"encoder_layers": 3, "decoder_layers": 2, "d_model": 14, "heads": 7, "d_ff": 11, "dropout": 0.1}
ALONE = {"layers": 2, "d_model": 14, "heads": 7, "d_ff": 11, "dropout": 0.1, "max_positions": 13}
TRAIN = {"steps": 5, "batch_tokens": 13, "lr": 1e-3, "warmup": 2, "validate_every": 3, "checkpoint_every": 3}


def transformer(**over: Any) -> Settings:
    return settings({"data.train": ["a.en", "a.de"], "model": SIZES | over})


def alone(task: str, family: str, **over: Any) -> Settings:
    return settings({"task": task, "data.train": ["a.txt"], "model": ALONE | {"family": family} | over})


def settings(raw: dict[str, Any]) -> Settings:
    return resolve(nest(raw | {"tokenizer.vocab": 307, "train": TRAIN | {"patience": 0}}))


@pytest.mark.parametrize(
    ("converter", "model", "name", "right"),
    [
        (MarianConverter(), transformer(ablations=["no_residual"]), "ablations", "[]"),
        (MarianConverter(), transformer(positions="learned"), "positions", "sinusoidal"),
        (MarianConverter(), transformer(positions="rotary"), "positions", "sinusoidal"),
        (PegasusConverter(), transformer(positions="rotary", norm="pre"), "positions", "sinusoidal"),
        (GPT2Converter(), alone("language_model", "gpt", positions="rotary"), "positions", "learned"),
        (BertConverter(), alone("masked_language_model", "bert", positions="rotary"), "positions", "learned"),
    ],
)
def test_settings_that_the_format_lacks_are_refused(
    converter: HuggingFaceConverter, model: Settings, name: str, right: str
) -> None:
    with pytest.raises(UserError) as refused:
        converter.config(model, 307, [])
    assert refused.value.message.endswith(f" does not support {name} = {getattr(model.model, name)}.")
    assert (refused.value.where, refused.value.hint) == (
        f"model.{name}",
        f"export a model trained with model.{name}={right}",
    )


def test_the_settings_of_the_paper_are_accepted() -> None:
    config = MarianConverter().config(transformer(), 307, [])
    sizes = ("d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_ffn_dim", "vocab_size")
    assert [config[name] for name in sizes] == [14, 3, 2, 7, 11, 307]
