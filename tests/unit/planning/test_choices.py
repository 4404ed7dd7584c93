"""Chosen settings: sizes follow from the data, given settings are kept, and every choice has a reason."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.data.images.format import ImageFormat
from glassformer.errors import UserError
from glassformer.planning.choices import apply, choose_image_sizes, choose_sizes, choose_text_sizes, choose_vocabulary
from glassformer.planning.estimate import estimate
from glassformer.planning.sizes import MUON_ON_IMAGES, MUON_ON_TOKENS, SIZES, size_for
from glassformer.settings import Raw, Settings, merge, nest, resolve
from glassformer.tasks import task_spec

DATA = nest({"data.train": ["a", "b"], "tokenizer.vocab": 4000})


def planned(pairs: int, raw: Raw | None = None, precision: str = "fp32") -> Settings:
    raw = merge(DATA, raw or {})
    settings, _ = apply(raw, choose_sizes(raw, pairs=pairs, tokens=pairs * 15, precision=(precision, "tried")))
    return resolve(settings)


@pytest.mark.parametrize("pairs", [2, 500, 5_000, 29_000, 300_000, 50_000_000])
def test_every_size_gives_valid_settings(pairs: int) -> None:
    settings = planned(pairs)
    assert settings.train.warmup < settings.train.steps
    assert settings.train.validate_every <= settings.train.steps


def test_thirty_thousand_pairs_do_not_get_the_base_model() -> None:
    assert planned(30_000).model.d_model < 512
    assert planned(5_000_000).model.d_model == 512


def test_larger_corpora_get_larger_models() -> None:
    sizes = [(size.d_model, size.layers) for size in SIZES]
    assert sizes == sorted(sizes)


def test_given_settings_are_kept_and_the_rest_follows() -> None:
    raw = nest({"train.steps": 40, "model.encoder_layers": 1, "model.decoder_layers": 5})
    settings = planned(29_000, raw)
    assert settings.train.steps == 40
    assert settings.train.warmup <= 40
    assert settings.train.validate_every <= 40
    assert (settings.model.encoder_layers, settings.model.decoder_layers) == (1, 5)


def test_only_choices_that_took_effect_are_returned_each_with_a_reason() -> None:
    raw = merge(DATA, nest({"train.lr": 0.5}))
    _, told = apply(raw, choose_sizes(raw, pairs=29_000, tokens=400_000, precision=("fp32", "tried")))
    assert "train.lr" not in {choice.path for choice in told}
    assert all(choice.reason for choice in told)
    assert "29,000" in choose_vocabulary({}, 29_000)[0].reason


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_auto_precision_is_what_the_machine_can_do(precision: str) -> None:
    assert planned(29_000, precision=precision).train.precision == precision
    assert planned(29_000, nest({"train.precision": "auto"}), precision).train.precision == precision
    assert planned(29_000, nest({"train.precision": "fp32"}), precision).train.precision == "fp32"


def test_auto_precision_waits_for_the_choice_of_the_sizes() -> None:
    raw = nest({"train.precision": "auto"})
    settings, told = apply(raw, choose_vocabulary(raw, 29_000))
    assert settings["train"]["precision"] == "auto"
    assert [choice.path for choice in told] == ["tokenizer.vocab"]


def test_the_estimate_grows_with_the_work() -> None:
    short, long = (planned(29_000, nest({"train.steps": steps})) for steps in (1_000, 10_000))
    few, many = (estimate(s, vocab=8000) for s in (short, long))
    assert 3 < many.minutes / few.minutes < 30  # ten times the steps, with a noisy measurement of the machine
    assert many.megabytes == few.megabytes
    two_passes = planned(29_000, nest({"train.steps": 1_000, "train.consistency": 5.0}))
    assert estimate(two_passes, vocab=8000).megabytes > few.megabytes
    limited = planned(29_000, nest({"train.steps": 10_000, "train.minutes": few.minutes / 100}))
    assert estimate(limited, vocab=8000).minutes == few.minutes / 100


@pytest.mark.parametrize(
    ("precision", "works", "family", "measured"),
    [
        ("fp32", True, "transformer", torch.float32),
        ("bf16", True, "transformer", torch.bfloat16),
        ("bf16", False, "transformer", torch.float32),  # a bf16 matmul would end the process
        ("bf16", True, "recurrent", torch.float32),
    ],
)
def test_the_estimate_measures_the_type_that_is_computed_in(
    precision: str, works: bool, family: str, measured: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = []
    monkeypatch.setattr("glassformer.planning.estimate.bf16_works", lambda: works)
    monkeypatch.setattr("glassformer.planning.estimate._matmul_speed", lambda dtype: types.append(dtype) or 1e12)
    estimate(planned(29_000, nest({"model.family": family}), precision), vocab=8000)
    assert types == [measured]


def test_sizes_cover_every_corpus() -> None:
    assert size_for(1) is SIZES[0]
    assert size_for(10**12) is SIZES[-1]


@pytest.mark.parametrize(
    ("raw", "schedule"),
    [
        ({"task": "language_model", "model": {"family": "gpt"}}, "cosine"),
        ({"task": "masked_language_model", "model": {"family": "bert"}}, "cosine"),
        ({"task": "classification", "model": {"family": "bert"}}, None),
        ({"task": "classification", "model": {"family": "bert"}, "train": {"optimizer": "muon"}}, "cosine"),
        ({"task": "tagging", "model": {"family": "bert"}}, "cosine"),
        ({"task": "language_model", "model": {"family": "recurrent_lm"}}, None),
    ],
)
def test_a_schedule_that_ends_at_0_is_chosen_if_the_length_is_known(raw: Raw, schedule: str | None) -> None:
    rest = {"amount": 5_000, "tokens": 5_000, "precision": ("fp32", ""), "metric": "likelihood"}
    chosen = {choice.path: choice.value for choice in choose_text_sizes(raw, task_spec(raw["task"]).data.sizes, **rest)}
    assert chosen.get("train.schedule") == schedule


def test_muon_is_chosen_with_its_learning_rate_and_layers() -> None:
    settings = planned(29_000)
    assert (settings.train.optimizer, settings.train.lr, settings.train.schedule) == (
        "muon",
        MUON_ON_TOKENS.lr,
        "linear",
    )
    assert (settings.model.norm, settings.model.positions, settings.model.zero_init) == ("pre", "rotary", True)


@pytest.mark.parametrize(
    ("pairs", "raw"),
    [
        (29_000, nest({"train.optimizer": "adam"})),
        (29_000, nest({"train.lr": size_for(29_000).lr})),
        (29_000, nest({"train.shard_model": True})),
        (29_000, nest({"model.family": "recurrent"})),
        (5_000_000, {}),
    ],
    ids=["given", "learning rate of Adam given", "sharded", "recurrent", "large corpus"],
)
def test_otherwise_adam_is_chosen_with_its_learning_rate_and_schedule(pairs: int, raw: Raw) -> None:
    settings = planned(pairs, raw)
    assert (settings.train.optimizer, settings.train.lr) == ("adam", size_for(pairs).lr)
    assert settings.train.schedule == "inverse_sqrt"


def test_heads_of_odd_width_are_not_rotated() -> None:
    settings = planned(29_000, nest({"model.d_model": 30, "model.heads": 2}))
    assert (settings.train.optimizer, settings.model.positions) == ("muon", "sinusoidal")


def test_concatenated_positions_are_not_rotary() -> None:
    settings = planned(29_000, nest({"model.combine_positions": "concatenate"}))
    assert (settings.train.optimizer, settings.model.positions) == ("muon", "sinusoidal")
    with pytest.raises(UserError, match="no vectors to concatenate"):
        planned(29_000, nest({"model.combine_positions": "concatenate", "model.positions": "rotary"}))


def test_muon_can_be_given_for_a_recurrent_model() -> None:
    settings = planned(29_000, nest({"train.optimizer": "muon", "model.family": "recurrent"}))
    assert (settings.train.optimizer, settings.train.lr) == ("muon", size_for(29_000).lr)


def planned_gpt(raw: Raw, *, characters: int = 1_000_000, fine_tune: bool = False) -> dict[str, Any]:
    sizes = task_spec("language_model").data.sizes
    choices = choose_text_sizes(
        merge({"model": {"family": "gpt"}}, raw), sizes, amount=characters, tokens=characters // 3,
        precision=("fp32", "tried"), metric="likelihood", fine_tune=fine_tune,
    )  # fmt: skip
    return {choice.path: choice.value for choice in choices}


def test_muon_is_chosen_for_a_gpt_on_a_small_text() -> None:
    chosen = planned_gpt({})
    assert (chosen["train.optimizer"], chosen["train.lr"], chosen["train.schedule"]) == (
        "muon",
        MUON_ON_TOKENS.lr,
        "cosine",
    )
    assert planned_gpt(nest({"train.optimizer": "adam"}))["train.lr"] < MUON_ON_TOKENS.lr
    assert planned_gpt(nest({"train.lr": 1e-3}))["train.optimizer"] == "adam"  # shown with its reason
    assert "train.optimizer" not in planned_gpt({}, characters=10**9)


def test_fine_tuning_is_planned_with_adam() -> None:
    chosen = choose_sizes(DATA, pairs=29_000, tokens=400_000, precision=("fp32", "tried"), fine_tune=True)
    assert "train.optimizer" not in {choice.path for choice in chosen} | planned_gpt({}, fine_tune=True).keys()


def planned_for_images(images: int, raw: Raw) -> Raw:
    raw = merge({"task": "image_classification", "model": {"family": "vit"}}, raw)
    form = ImageFormat(height=28, width=28, channels=1)
    choices = choose_image_sizes(raw, images=images, form=form, mean=[0.3], deviation=[0.4], precision=("fp32", ""))
    return apply(raw, choices)[0]["train"]


def test_muon_is_chosen_for_tens_of_thousands_of_images() -> None:
    chosen = planned_for_images(60_000, {})
    rates = MUON_ON_IMAGES.lr, MUON_ON_IMAGES.matrix_lr
    assert (chosen["optimizer"], chosen["lr"], chosen["matrix_lr"], chosen["weight_decay"]) == ("muon", *rates, 0.3)
    from_a_run = nest({"model.mean": [0.3]})
    for images, raw in ((60_000, nest({"train.optimizer": "adam"})), (60_000, from_a_run), (10_000, {})):
        train = planned_for_images(images, raw)
        assert train["lr"] < MUON_ON_IMAGES.lr
        assert not {"matrix_lr", "weight_decay"} & train.keys()
    assert planned_for_images(60_000, nest({"train.lr": 1e-4}))["optimizer"] == "adam"
