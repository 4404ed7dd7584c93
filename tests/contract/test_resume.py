"""A run that is killed and resumed ends with the very bits of one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.errors import UserError
from glassformer.run import read_weights
from glassformer.text.phrasebook import phrasebook
from glassformer.training.events import Event, Saved

SETTINGS = {
    "tokenizer.vocab": 400,
    "model.layers": 1,
    "model.d_model": 16,
    "model.heads": 2,
    "model.d_ff": 24,
    "model.dropout": 0.3,
    "train.batch_tokens": 256,
    "train.accumulate": 2,
    "train.steps": 40,
    "train.warmup": 10,
    "train.lr": 2e-3,
    "train.validate_every": 7,
    "train.checkpoint_every": 5,
    "train.average": 3,
    "train.valid_sentences": 5,
    "decode.max_length": 12,
}

# Trains in a process of its own, which kills itself without warning in the middle of a chosen event.
VICTIM = """
import os, signal, sys
import torch
import glassformer as gf
torch.set_num_threads(1)
settings, source, target, out, kind, count = eval(sys.argv[1])
def listener(event):
    global count
    if type(event).__name__ == kind:
        count -= 1
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
gf.train(source, target, out=out, settings=settings, listener=listener)
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("corpus")
    triples = phrasebook(size=400).train
    for language in ("en", "fr"):
        (folder / f"train.{language}").write_text("".join(t.text(language) + "\n" for t in triples), encoding="utf-8")
    return str(folder / "train.en"), str(folder / "train.fr")


@pytest.fixture(scope="module")
def uninterrupted(corpus: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gf.train(*corpus, out=tmp_path_factory.mktemp("whole") / "run", settings=SETTINGS).path


def bits(run: Path) -> dict[str, bytes]:
    """Final weights, newest weights and the optimizer's moments."""
    files = [run / "model.safetensors", *(run / "checkpoints" / "step-40").glob("*.safetensors")]
    return {
        f"{file.name}:{name}": tensor.numpy().tobytes() for file in files for name, tensor in read_weights(file).items()
    }


# The first step ends before any checkpoint; 13 is inside an epoch and between checkpoints; 14 validates.
@pytest.mark.parametrize(
    ("kind", "count"), [("Started", 1), ("Progress", 1), ("Saved", 3), ("Validated", 2), ("Saved", 9)]
)
def test_killed_and_resumed_is_bit_identical(
    kind: str, count: int, corpus: tuple[str, str], uninterrupted: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    arguments = repr((SETTINGS, *corpus, str(run), kind, count))
    victim = subprocess.run([sys.executable, "-c", VICTIM, arguments], check=False)
    assert victim.returncode == -signal.SIGKILL

    gf.train(out=run, resume=True)

    assert bits(run) == bits(uninterrupted)
    assert not list(run.rglob("*.tmp"))


def test_interrupted_before_the_first_validation_it_is_unfinished_but_usable(
    corpus: tuple[str, str], uninterrupted: Path, tmp_path: Path
) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, Saved) and event.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    run = gf.train(*corpus, out=tmp_path / "run", settings=SETTINGS, listener=interrupt)
    assert (run.reason, run.step, run.scores) == ("interrupted", 5, {})
    assert not (run.path / "README.md").exists()
    assert gf.load(run.path).translate(["I am a student"])
    gf.train(out=run.path, resume=True)
    assert bits(run.path) == bits(uninterrupted)


def test_a_different_seed_gives_different_bits(corpus: tuple[str, str], uninterrupted: Path, tmp_path: Path) -> None:
    other = gf.train(*corpus, out=tmp_path / "run", settings=SETTINGS | {"train.seed": 2}).path
    assert bits(other) != bits(uninterrupted)


def test_resume_refuses_other_data(corpus: tuple[str, str], tmp_path: Path) -> None:
    source = tmp_path / "train.en"
    target = tmp_path / "train.fr"
    source.write_text(Path(corpus[0]).read_text(encoding="utf-8"), encoding="utf-8")
    target.write_text(Path(corpus[1]).read_text(encoding="utf-8"), encoding="utf-8")
    run = gf.train(str(source), str(target), out=tmp_path / "run", settings=SETTINGS | {"train.steps": 5}).path
    source.write_text(source.read_text(encoding="utf-8").replace("cat", "dog"), encoding="utf-8")
    with pytest.raises(UserError, match="not what this run began with"):
        gf.train(out=run, resume=True)


def test_a_finished_run_can_go_on_with_more_steps(corpus: tuple[str, str], uninterrupted: Path, tmp_path: Path) -> None:
    short = gf.train(*corpus, out=tmp_path / "run", settings=SETTINGS | {"train.steps": 20}).path
    gf.train(out=short, resume=True, settings={"train.steps": 40})
    longer = read_weights(short / "checkpoints" / "step-40" / "model.safetensors")
    whole = read_weights(uninterrupted / "checkpoints" / "step-40" / "model.safetensors")
    assert all(longer[name].equal(whole[name]) for name in whole)
