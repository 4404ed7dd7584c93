"""Every family that translates, from the command line: what `train` leaves is accepted by all other commands."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from command_line import glassformer, good

SMALL = (
    "model.layers=1 model.d_model=16 tokenizer.vocab=400 train.steps=6 train.validate_every=3 "
    "train.checkpoint_every=3 decode.max_length=20"
)
HELD_OUT = "--valid valid.en valid.fr --test test.en test.fr"


@pytest.mark.parametrize(("cell", "attention"), [("gru", "additive"), ("lstm", "none"), ("rnn", "general")])
def test_a_recurrent_run_is_accepted_everywhere(workdir: Path, cell: str, attention: str) -> None:
    family = f"model.family=recurrent model.cell={cell} model.attention={attention}"
    trained = good(f"train train.en train.fr {HELD_OUT} -o rnn {family} {SMALL}")
    assert "estimate:" in trained.err
    model = tomllib.loads((workdir / "rnn/run.toml").read_text(encoding="utf-8"))["model"]
    assert (model["family"], model["cell"], model["attention"]) == ("recurrent", cell, attention)
    assert (
        f"1+1 {cell} layers, width 16, bidirectional, attention: {attention}" in (workdir / "rnn/README.md").read_text()
    )

    lines = good("translate rnn -i test.en").out
    assert lines.count("\n") == 10
    for how in ("--beam 1", "--sample --seed 3", "--n-best 2 --scores", "--precision int8"):
        assert good(f"translate rnn -i test.en {how}").out
    found = json.loads(good("evaluate rnn --source test.en --reference test.fr --json").out)
    assert f"| {found['bleu']:.2f} | {found['chrf']:.2f} |" in (workdir / "rnn/README.md").read_text(encoding="utf-8")
    assert json.loads(good("info rnn --json").out)["settings"]["model"]["cell"] == cell
    assert f'cell = "{cell}"' in good("info rnn").out

    explained = glassformer(["explain", "rnn", "I am a student", "--target", "Je suis"])
    if attention == "none":
        assert explained.code == 2
        assert "This model has no attention." in explained.err
    else:
        grid = explained.out.split("\n\n")[0].splitlines()
        assert "".join(grid[0].split()).lstrip("▁") == "Iamastudent<eos>"
        assert explained.code == 0


def test_a_lowercased_run_is_scored_case_insensitively(workdir: Path) -> None:
    good(f"train train.en train.fr {HELD_OUT} -o low tokenizer.lowercase=true {SMALL}")
    found = json.loads(good("evaluate low --source test.en --reference test.fr --json").out)
    assert "case:lc" in found["bleu_signature"] and "case:lc" in (workdir / "low/README.md").read_text(encoding="utf-8")
    assert f"| {found['bleu']:.2f} | {found['chrf']:.2f} |" in (workdir / "low/README.md").read_text(encoding="utf-8")
    assert good("translate low -i test.en").out == good("translate low -i test.en").out.lower()
    capitals = glassformer(["translate", "low"], stdin=b"I AM A STUDENT.\ni am a student.\n").out.splitlines()
    assert capitals[0] == capitals[1]


def test_translation_with_a_character_tokenizer(workdir: Path) -> None:
    good(f"train train.en train.fr {HELD_OUT} -o letters tokenizer.kind=characters {SMALL}")
    assert good("translate letters -i test.en").out.count("\n") == 10
    refused = glassformer(f"train train.en train.fr -o notes tokenizer.kind=notes {SMALL}")
    assert refused.code == 2 and "tokenizer.kind=notes is only valid for music" in refused.err
    refused = glassformer("train train.en train.fr -o x tokenizer.kind=characters tokenizer.lowercase=true")
    assert refused.code == 2 and "lowercase=true is only valid for kind = 'bpe'" in refused.err


def test_sizes_are_chosen_for_the_family(workdir: Path) -> None:
    steps = "train.steps=1 train.validate_every=1 decode.max_length=2"
    told = good(f"train train.en train.fr -o rnn model.family=recurrent {steps}").err
    assert "model.d_model" in told and "about as many parameters as the Transformer" in " ".join(told.split())
    assert "model.heads" not in told


def test_a_recurrent_run_resumes_and_is_fine_tuned(workdir: Path) -> None:
    family = "model.family=recurrent model.cell=lstm"
    good(f"train train.en train.fr {HELD_OUT} -o whole {family} {SMALL}")
    good(f"train train.en train.fr {HELD_OUT} -o half {family} {SMALL} train.steps=3")
    good("train -o half --resume train.steps=6")
    weights = [(workdir / run / "checkpoints/step-6/model.safetensors").read_bytes() for run in ("whole", "half")]
    assert weights[0] == weights[1]
    good(f"train train.en train.fr {HELD_OUT} --from whole -o child train.steps=1 train.validate_every=1")
    assert "lstm" in (workdir / "child/run.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_running_statistics_are_resumed(workdir: Path, norm: str) -> None:
    family = f"'model.ablations=[\"batch_norm\"]' model.heads=2 model.d_ff=16 model.norm={norm}"
    good(f"train train.en train.fr {HELD_OUT} -o whole {family} {SMALL}")
    good(f"train train.en train.fr {HELD_OUT} -o half {family} {SMALL} train.steps=3")
    good("train -o half --resume train.steps=6")
    weights = [(workdir / run / "checkpoints/step-6/model.safetensors").read_bytes() for run in ("whole", "half")]
    assert weights[0] == weights[1]
    assert good("translate whole -i test.en").out == good("translate half -i test.en").out


def test_wrong_settings_are_reported_with_the_names_of_the_family(workdir: Path) -> None:
    for setting, message in (
        ("model.family=recurrent model.cells=gru", "did you mean 'model.cell'?"),
        ("model.family=recurrent model.heads=4", "this setting is for model.family=transformer"),
        ("model.family=window", "model.family=window cannot be used for task=translation"),
        ("model.family=rnn", "should be one of 'transformer', 'recurrent'"),
    ):
        refused = glassformer(f"train train.en train.fr -o bad {setting}")
        assert refused.code == 2
        assert message in " ".join(refused.err.split())
        assert not (workdir / "bad").exists()
