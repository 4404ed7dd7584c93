"""Settings: invalid ones are refused with their path and a hint."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from glassformer.errors import UserError
from glassformer.settings import Settings, check, merge, nest, parse_overrides, read_settings, resolve, setting_names

WHOLE = nest(
    {
        "data.train": ["a.en", "a.de"],
        "tokenizer.vocab": 500,
        "model.layers": 2,
        "model.d_model": 32,
        "model.heads": 4,
        "model.d_ff": 64,
        "model.dropout": 0.1,
        "train.steps": 10,
        "train.batch_tokens": 100,
        "train.lr": 1e-3,
        "train.warmup": 5,
        "train.validate_every": 5,
        "train.checkpoint_every": 5,
        "train.patience": 3,
    }
)


@pytest.mark.parametrize(
    ("override", "messages"),
    [
        ("model.layer=2", ["no setting 'model.layer'", "did you mean 'model.layers'"]),
        ("lr=1", ["no setting 'lr'", "did you mean 'train.lr'"]),
        ("trian.lr=1", ["no setting 'trian'", "did you mean"]),
        ("train.steps=many", ["train.steps = 'many'", "whole number"]),
        ("train.steps=0", ["train.steps = 0", "greater than 0"]),
        ("train.steps=1.5", ["train.steps = 1.5", "whole number"]),
        ("model.dropout=1.5", ["model.dropout = 1.5", "less than 1"]),
        ("model.heads=5", ["model", "heads = 5 does not divide d_model = 32"]),
        ("model.norm=middle", ["model.norm", "'post' or 'pre'"]),
        ("tokenizer.vocab=10", ["tokenizer.vocab = 10", "greater than or equal to 300"]),
        ("train.label_smoothing=true", ["train.label_smoothing", "number"]),
    ],
)
def test_invalid_settings_are_reported_with_their_path(override: str, messages: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        resolve(merge(WHOLE, parse_overrides([override])))
    for message in messages:
        assert message in str(caught.value)


def test_all_invalid_settings_are_reported_together() -> None:
    with pytest.raises(UserError) as caught:
        check(parse_overrides(["model.layer=2", "train.steps=no"]))
    assert "2 settings are invalid" in str(caught.value)
    assert "model.layer" in str(caught.value)
    assert "train.steps" in str(caught.value)


def test_missing_settings_are_valid_before_they_are_chosen() -> None:
    check({"data": {"train": ["a", "b"]}})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["train.lora=2", "train.optimizer=muon"], "lora is trained with optimizer = 'adam'"),
        (["task=tagging", "train.consistency=1"], "consistency cannot be used for task=tagging"),
        (["tokenizer.kind=characters", "tokenizer.lowercase=true"], "lowercase=true is only valid"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_before_the_others_are_chosen(
    overrides: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check(parse_overrides(overrides))
    with pytest.raises(UserError, match="'model' is missing"):
        resolve(nest({"data.train": ["a", "b"]}))


@pytest.mark.parametrize(
    ("text", "value"),
    [("3e-4", 3e-4), ("7", 7), ("true", True), ('["a", "b"]', ["a", "b"]), ("pre", "pre"), ("a=b", "a=b")],
)
def test_overrides_are_toml_or_bare_words(text: str, value: object) -> None:
    assert parse_overrides([f"a.b={text}"]) == {"a": {"b": value}}


def test_layers_sets_encoder_and_decoder_layers() -> None:
    settings = resolve(merge(WHOLE, nest({"model.layers": 3, "model.decoder_layers": 1})))
    assert (settings.model.encoder_layers, settings.model.decoder_layers) == (3, 1)


def test_written_settings_read_back_the_same() -> None:
    settings = resolve(WHOLE)
    assert resolve(tomllib.loads(settings.to_toml())) == settings


def test_paths_of_a_recipe_are_relative_to_it(tmp_path: Path) -> None:
    recipe = tmp_path / "deep" / "recipe.toml"
    recipe.parent.mkdir()
    recipe.write_text('[data]\ntrain = ["a.en", ["b.de", "/c.de"]]\n', encoding="utf-8")
    assert read_settings(recipe)["data"]["train"] == [f"{tmp_path}/deep/a.en", [f"{tmp_path}/deep/b.de", "/c.de"]]


class TestSeveralCorpora:
    def test_settings_from_recipes_and_overrides_survive_a_round_trip(self, tmp_path: Path) -> None:
        recipe = tmp_path / "recipe.toml"
        recipe.write_text(
            '[data]\ntrain = ["a.en", "a.de"]\ncache = "kept"\n[[data.also]]\ntrain = ["b.tsv"]\nweight = 2\n'
        )
        raw = read_settings(recipe)
        assert raw["data"]["also"] == [{"train": [f"{tmp_path}/b.tsv"], "weight": 2}]
        assert raw["data"]["cache"] == f"{tmp_path}/kept"
        over = parse_overrides(['data.also=[{train = ["c.en", "c.de"], weight = 0.5}, {train = ["d.tsv"]}]'])
        settings = resolve(merge(WHOLE, over))
        assert [(other.train, other.weight) for other in settings.data.also or ()] == [
            (["c.en", "c.de"], 0.5),
            (["d.tsv"], 1.0),
        ]
        assert resolve(tomllib.loads(settings.to_toml())) == settings

    @pytest.mark.parametrize(
        ("also", "said"),
        [
            ([{"train": ["b.tsv"], "weight": 0}], "data.also.0.weight = 0"),
            ([{"train": ["b.tsv"], "weight": -1.5}], "data.also.0.weight = -1.5"),
            ([{"train": ["b.tsv"], "wieght": 2}], "did you mean 'data.also.0.weight'?"),
            ([{"train": ["b.tsv"], "weight": "twice"}], "data.also.0.weight = 'twice'"),
            ([{"weight": 2.0}], "'data.also.0.train' is missing"),
            ([{"train": ["b.tsv"], "wieght": 2.0}], "there is no setting 'data.also.0.wieght'"),
            ({"train": ["b.tsv"]}, "data.also ="),
        ],
    )
    def test_invalid_entries_of_data_also_are_reported(self, also: object, said: str) -> None:
        with pytest.raises(UserError) as caught:
            check({"data": {"train": ["a", "b"], "also": also}})
        assert said in str(caught.value)


def test_every_setting_has_a_name_that_can_be_set() -> None:
    names = set(setting_names())
    assert {"train.lr", "model.layers", "decode.beam", "data.train", "tokenizer.vocab", "task"} <= names
    assert all(section in Settings.model_fields for section in (name.split(".")[0] for name in names))
