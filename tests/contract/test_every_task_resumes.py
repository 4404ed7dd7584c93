"""Every task: a run that is interrupted and resumed gives the same bits as an uninterrupted one."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
from killed import bits

import glassformer as gf
from glassformer.errors import UserError
from glassformer.training.events import Event, Saved
from glassformer.training.replicated import Replicated

SETTINGS = {
    "tokenizer.vocab": 300,
    "data.sequence": 16,
    "model.d_model": 16,
    "model.dropout": 0.3,
    "train.batch_tokens": 128,
    "train.accumulate": 2,
    "train.steps": 40,
    "train.warmup": 10,
    "train.validate_every": 7,
    "train.checkpoint_every": 5,
    "train.average": 3,
}
KINDS = {  # a file and settings
    "tsv": ("tsv", {}),
    "conllu": ("conllu", {}),
    "txt": ("txt", {}),
    "gpt": ("txt", {"model.family": "gpt", "model.layers": 1}),
    "bert": ("tsv", {"model.family": "bert", "model.layers": 1}),
    "bert, by its first state": ("tsv", {"model.family": "bert", "model.layers": 1, "model.pooling": "first"}),
    "bert, tags": ("conllu", {"model.family": "bert", "model.layers": 1}),
    "word vectors": ("txt", {"task": "word_vectors"}),
    "masked words": ("txt", {"task": "masked_words", "model.layers": 1}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, dice = tmp_path_factory.mktemp("tasks"), random.Random(5)
    words = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]
    rows = [dice.choices(words, k=dice.randint(2, 9)) for _ in range(120)]
    (folder / "a.tsv").write_text("".join(f"{'ba' in row}\t{' '.join(row)}\n" for row in rows), encoding="utf-8")
    (folder / "a.txt").write_text("".join(f"{' '.join(row)}\n" for row in rows), encoding="utf-8")
    tagged = ("".join(f"{i}\t{word}\t_\tV{word[1]}\n" for i, word in enumerate(row, 1)) for row in rows)
    (folder / "a.conllu").write_text("\n".join(tagged), encoding="utf-8")
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_and_resumed_is_bit_identical(kind: str, folder: Path, tmp_path: Path) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, Saved) and event.step == 15:
            os.kill(os.getpid(), signal.SIGINT)

    suffix, said = KINDS[kind]
    data, settings = str(folder / f"a.{suffix}"), SETTINGS | said
    whole = gf.train(data, out=tmp_path / "whole", settings=settings)
    run = gf.train(data, out=tmp_path / "run", settings=settings, listener=interrupt)
    assert (run.reason, run.step) == ("interrupted", 15)
    resumed = gf.train(out=run.path, resume=True)
    assert bits(resumed.path) == bits(whole.path)
    assert {name: tested.scores for name, tested in resumed.scores.items()} == {
        name: tested.scores for name, tested in whole.scores.items()
    }


def test_resume_refuses_other_labels(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "b.tsv"
    data.write_text((folder / "a.tsv").read_text(encoding="utf-8"), encoding="utf-8")
    run = gf.train(str(data), out=tmp_path / "run", settings=SETTINGS | {"train.steps": 5})
    data.write_text(data.read_text(encoding="utf-8").replace("True", "Yes"), encoding="utf-8")
    with pytest.raises(UserError, match="has changed since this run started"):
        gf.train(out=run.path, resume=True)
    with pytest.raises(UserError, match=r"another task or other labels: classification False, True(.|\n)*False, Yes"):
        gf.train(str(data), out=tmp_path / "other", start_from=run.path, settings={"train.steps": 5})


def test_a_run_can_start_from_another(folder: Path, tmp_path: Path) -> None:
    data = str(folder / "a.tsv")
    run = gf.train(data, out=tmp_path / "run", settings=SETTINGS | {"train.steps": 5})
    more = gf.train(data, out=tmp_path / "more", start_from=run.path, settings={"train.steps": 5})
    assert gf.load(more.path).labels == ["False", "True"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_is_split_for_memory_gives_nearly_the_same_weights(
    kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backward, notes = Replicated._backward, list[str]()

    def scarce(self: Replicated, batches: list[object]) -> tuple[float, int]:
        if any(len(batch.rows) > 3 for batch in batches):  # type: ignore[attr-defined]
            raise MemoryError
        return backward(self, batches)

    suffix, said = KINDS[kind]
    data, settings = str(folder / f"a.{suffix}"), SETTINGS | said | {"train.steps": 3, "model.dropout": 0.0}
    enough = gf.train(data, out=tmp_path / "enough", settings=settings)
    monkeypatch.setattr(Replicated, "_backward", scarce)
    little = gf.train(data, out=tmp_path / "little", settings=settings, listener=lambda event: notes.append(str(event)))
    assert any("not enough memory for a step" in note for note in notes)
    assert little.scores["valid"].scores["loss"] == pytest.approx(enough.scores["valid"].scores["loss"], rel=1e-3)
