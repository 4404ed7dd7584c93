"""Old names of settings are still read, wherever settings enter, and mean the same as the current ones."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from glassformer.errors import UserError
from glassformer.inference.run_folder import RunFolder, load_settings
from glassformer.settings import Raw, merge, nest, parse_overrides, read_settings, resolve
from glassformer.settings.aliases import ABLATION_FLAGS, current_names
from glassformer.training.train import train

WHOLE = nest(
    {
        "data.train": ["a.en", "a.de"],
        "tokenizer.vocab": 400,
        "model.layers": 1,
        "model.d_model": 16,
        "model.heads": 2,
        "model.d_ff": 16,
        "model.dropout": 0.0,
        "train.steps": 1,
        "train.batch_tokens": 100,
        "train.lr": 1e-3,
        "train.warmup": 1,
        "train.validate_every": 1,
        "train.checkpoint_every": 1,
        "train.patience": 0,
    }
)
# Each old flag of an ablation with a value, and what it is now.
FLAGS = [(name, value, ablation) for name, values in ABLATION_FLAGS.items() for value, ablation in values.items()]


def of_model(raw: Raw) -> Any:
    return resolve(merge(WHOLE, raw)).model


@pytest.mark.parametrize(("name", "value", "ablation"), FLAGS)
def test_a_flag_in_a_toml_file_becomes_an_ablation(
    name: str, value: str | bool, ablation: str | None, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(tomli_w.dumps({"model": {name: value}}))
    assert of_model(read_settings(recipe)).ablations == ([] if ablation is None else [ablation])


def test_a_renamed_setting_in_a_toml_file(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[model]\npositions = "learned"\nlongest = 77\n')
    assert of_model(read_settings(recipe)).max_positions == 77


def test_a_renamed_setting_of_training(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[train]\nfilm = true\n")
    assert resolve(merge(WHOLE, read_settings(recipe))).train.keep_all_checkpoints
    assert parse_overrides(["train.film=true"]) == {"train": {"keep_all_checkpoints": True}}


@pytest.mark.parametrize("family", ["gpt", "bert"])
def test_old_names_on_the_command_line(family: str) -> None:
    given = parse_overrides(["model.longest=77", "model.normalize=batch", "model.scale_scores=false"])
    assert given == {"model": {"max_positions": 77, "ablations": ["batch_norm", "no_scaling"]}}
    task = {"gpt": "language_model", "bert": "masked_words"}[family]
    overrides = [f"task={task}", f"model.family={family}", "model.longest=77"]
    assert of_model(parse_overrides(overrides)).max_positions == 77


def test_a_setting_of_the_command_line_replaces_the_old_name_of_a_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[model]\nlongest = 77\n")
    assert of_model(merge(read_settings(recipe), parse_overrides(["model.max_positions=78"]))).max_positions == 78
    recipe.write_text("[model]\nmax_positions = 77\n")
    assert of_model(merge(read_settings(recipe), parse_overrides(["model.longest=78"]))).max_positions == 78


def test_a_current_name_wins_over_an_old_one() -> None:
    assert current_names({"model": {"longest": 5, "max_positions": 7}}) == {"model": {"max_positions": 7}}
    both = {"model": {"residual": False, "ablations": ["no_scaling"]}}
    assert current_names(both) == {"model": {"ablations": ["no_scaling", "no_residual"]}}


def test_a_wrong_value_of_an_old_name_is_refused() -> None:
    for wrong in ("model.normalize=bath", "model.residual=0", "model.longest=none"):
        with pytest.raises(UserError, match="model"):
            of_model(parse_overrides([wrong]))


def test_old_names_in_train_and_in_the_run_that_it_writes(tmp_path: Path) -> None:
    for side, line in (("en", "I am a student"), ("fr", "Je suis étudiant")):
        (tmp_path / f"train.{side}").write_text("".join(f"{line} {i}\n" for i in range(40)), encoding="utf-8")
    files = [str(tmp_path / f"train.{side}") for side in ("en", "fr")]
    old = {"model.positions": "learned", "model.longest": 77, "model.residual": False}
    settings = merge({"model": WHOLE["model"], "train": WHOLE["train"], "tokenizer": {"vocab": 310}}, nest(old))
    train(*files, valid=files, out=tmp_path / "run", settings=settings)
    written = tomllib.loads((tmp_path / "run" / "run.toml").read_text(encoding="utf-8"))["model"]
    assert (written["max_positions"], written["ablations"]) == (77, ["no_residual"])
    assert not {"longest", "residual"} & set(written)


def test_a_run_folder_with_old_names(tmp_path: Path) -> None:
    flags = {"normalize": "batch", "residual": True, "scale_scores": False, "look_ahead_mask": True}
    settings = resolve(merge(WHOLE, {"model": {"max_positions": 77, "ablations": ["batch_norm", "no_scaling"]}}))
    text = settings.to_toml().replace("max_positions = 77", "longest = 77")
    start, rest = text.split("ablations = [", 1)
    text = start + tomli_w.dumps(flags) + rest.split("]\n", 1)[1]
    assert "ablations" not in text and "max_positions" not in text
    (tmp_path / "run.toml").write_text(text, encoding="utf-8")
    assert load_settings(RunFolder(tmp_path)) == settings
