"""Settings of the model families; runs of versions with one family are still read."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import torch

from glassformer.errors import UserError
from glassformer.inference.run import build_model
from glassformer.models import FAMILIES
from glassformer.planning.choices import apply, choose_sizes
from glassformer.planning.estimate import estimate, multiplications_per_token
from glassformer.planning.sizes import SIZES
from glassformer.settings import (
    MODELS,
    RecurrentSettings,
    Settings,
    TransformerSettings,
    check,
    merge,
    nest,
    parse_overrides,
    resolve,
    setting_names,
)

TRAINING = {
    "data.train": ["a.en", "a.de"],
    "tokenizer.vocab": 500,
    "train.steps": 10,
    "train.batch_tokens": 100,
    "train.lr": 1e-3,
    "train.warmup": 5,
    "train.validate_every": 5,
    "train.checkpoint_every": 5,
    "train.patience": 3,
}
RECURRENT = nest(TRAINING | {"model.family": "recurrent", "model.layers": 2, "model.d_model": 32, "model.dropout": 0.1})
OLD = """
[model]
encoder_layers = 2
decoder_layers = 2
d_model = 48
heads = 4
d_ff = 96
dropout = 0.05
norm = "post"
"""


def told(raw: dict[str, Any], *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        resolve(merge(raw, parse_overrides(overrides)))
    return str(caught.value)


def test_every_family_has_settings_and_a_model() -> None:
    assert FAMILIES.keys() == MODELS.keys()


def test_a_run_that_names_no_family_is_a_transformer() -> None:
    settings = resolve(merge(nest(TRAINING), tomllib.loads(OLD)))
    assert isinstance(settings.model, TransformerSettings)
    assert settings.model.ablations == []


def test_new_settings_do_not_change_the_identity_of_an_old_run() -> None:
    settings = resolve(merge(nest(TRAINING), tomllib.loads(OLD)))
    assert settings.model.added_settings_at_default() == {
        "ablations",
        "activation",
        "output_bias",
        "zero_init",
    }
    changed = resolve(merge(nest(TRAINING | {"model.residual": False}), tomllib.loads(OLD)))
    assert "ablations" not in changed.model.added_settings_at_default()


def test_recurrent_settings_read_back_the_same() -> None:
    settings = resolve(merge(RECURRENT, nest({"model.cell": "lstm", "model.attention": "general"})))
    assert isinstance(settings.model, RecurrentSettings)
    assert (settings.model.cell, settings.model.encoder_layers, settings.model.decoder_layers) == ("lstm", 2, 2)
    assert resolve(tomllib.loads(settings.to_toml())) == settings


@pytest.mark.parametrize(
    ("override", "messages"),
    [
        ("model.cel=lstm", ["no setting 'model.cel'", "did you mean 'model.cell'"]),
        ("model.attenton=dot", ["no setting 'model.attenton'", "did you mean 'model.attention'"]),
        ("model.heads=4", ["no setting 'model.heads'", "model.family=transformer", "recurrent has", "cell"]),
        ("model.cell=lsmt", ["model.cell = 'lsmt'", "'rnn', 'lstm' or 'gru'"]),
        ("model.family=recurent", ["model.family = 'recurent'", "did you mean 'recurrent'"]),
        ("model.family=cnn", ["model.family = 'cnn'", "should be one of 'transformer', 'recurrent'"]),
        ("model.d_model=33", ["model", "d_model = 33 must be even", "use 34"]),
        ("model.layers=0", ["model.encoder_layers = 0", "greater than 0"]),
        ("model=3", ["model = 3", "is a section"]),
    ],
)
def test_invalid_settings_are_reported_for_their_family(override: str, messages: list[str]) -> None:
    said = told(RECURRENT, override)
    for message in messages:
        assert message in said


def test_a_hint_for_several_settings_is_said_once() -> None:
    with pytest.raises(UserError) as caught:
        check(parse_overrides(["model.family=recurrent", "model.heads=2", "model.d_ff=8"]))
    assert "'model.heads'" in caught.value.where and "'model.d_ff'" in caught.value.where
    assert caught.value.hint.count("this setting is for model.family=transformer") == 1


def test_recurrent_settings_are_refused_for_a_transformer() -> None:
    with pytest.raises(UserError, match=r"this setting is for model\.family=recurrent; transformer has") as caught:
        check(parse_overrides(["model.cell=lstm"]))
    assert "heads" in str(caught.value)


@pytest.mark.parametrize("family", ["recurrent_lm", "window", "gpt"])
def test_a_language_model_does_not_translate(family: str) -> None:
    with pytest.raises(
        UserError,
        match="task=translation: use transformer, recurrent, or set task=language_model, music",
    ):
        check(parse_overrides([f"model.family={family}"]))


def test_names_of_one_family_or_of_all() -> None:
    everything = list(setting_names())
    assert len(everything) == len(set(everything))
    assert {"model.heads", "model.cell", "model.window", "model.layers"} <= set(everything)
    recurrent = set(setting_names("recurrent"))
    assert "model.cell" in recurrent and "train.lr" in recurrent and "model.heads" not in recurrent
    assert "model.layers" not in set(setting_names("window"))


def weights_of(settings: Settings, vocab: int) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build_model(settings, vocab).parameters())


def planned(pairs: int, model: dict[str, Any]) -> tuple[Settings, dict[str, str]]:
    raw = nest({"data.train": ["a", "b"], "tokenizer.vocab": 4000} | model)
    raw, choices = apply(raw, choose_sizes(raw, pairs=pairs, tokens=15 * pairs, precision=("fp32", "tried")))
    return resolve(raw), {choice.path: choice.reason for choice in choices}


@pytest.mark.parametrize("pairs", [size.up_to - 1 if size.up_to < 1e12 else 10**8 for size in SIZES])
@pytest.mark.parametrize("attention", ["none", "additive"])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_a_recurrent_model_gets_about_as_many_weights_as_the_transformer(
    pairs: float, cell: str, attention: str
) -> None:
    given = {"model.family": "recurrent", "model.cell": cell, "model.attention": attention}
    settings, reasons = planned(int(pairs), given)
    transformer, _ = planned(int(pairs), {})
    assert weights_of(settings, 4000) == pytest.approx(weights_of(transformer, 4000), rel=0.2)
    assert "as many parameters" in reasons["model.d_model"]
    assert settings.model.family == "recurrent"


def test_given_sizes_are_kept() -> None:
    given = {"model.family": "recurrent", "model.encoder_layers": 1, "model.decoder_layers": 3}
    settings, reasons = planned(29_000, given)
    assert isinstance(settings.model, RecurrentSettings)
    assert (settings.model.encoder_layers, settings.model.decoder_layers) == (1, 3)
    assert "model.layers" not in reasons
    with pytest.raises(UserError, match=r"'model\.decoder_layers' is missing"):
        planned(29_000, {"model.family": "recurrent", "model.encoder_layers": 1})
    narrow, reasons = planned(29_000, given | {"model.d_model": 64})
    assert narrow.model.d_model == 64
    assert "model.d_model" not in reasons


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_the_estimate_covers_recurrent_models(cell: str) -> None:
    given = {"model.family": "recurrent", "model.cell": cell, "model.d_model": 256}
    settings, _ = planned(29_000, given)
    found = estimate(settings, vocab=4000)
    assert found.minutes > 0
    assert 300 < found.megabytes < 2000


def test_more_gates_are_more_work() -> None:
    def work(cell: str, attention: str) -> int:
        given = nest({"model.cell": cell, "model.attention": attention})
        with torch.device("meta"):
            return multiplications_per_token(build_model(resolve(merge(RECURRENT, given)), 100))

    assert work("rnn", "none") < work("gru", "none") < work("lstm", "none")
    assert work("gru", "none") < work("gru", "dot") < work("gru", "general") < work("gru", "additive")


def test_embeddings_are_looked_up_and_not_multiplied() -> None:
    """Per source and target token of the Transformer: all matrices of both sides, and one output projection."""
    sizes = {"layers": 3, "d_model": 32, "heads": 4, "d_ff": 37, "dropout": 0.0, "tie_embeddings": False}
    raw = nest(TRAINING | {f"model.{name}": value for name, value in sizes.items()})
    with torch.device("meta"):
        model = build_model(resolve(raw), 101)
    expected = 3 * (4 * 32**2 + 2 * 32 * 37) + 3 * (8 * 32**2 + 2 * 32 * 37) + 32 * 101
    assert multiplications_per_token(model) == expected
