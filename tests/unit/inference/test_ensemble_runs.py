"""Translators of ensembles: loaded from several runs, with workers, or refused with a clear message."""

from __future__ import annotations

from pathlib import Path

import pytest

import glassformer as gf
from glassformer.data import process_pool
from glassformer.decoding.sampling import Sampling
from glassformer.errors import UserError
from glassformer.inference.translator import Translation, load_translator
from glassformer.inference.workers import MIN_LINES, translate_stream
from glassformer.phrasebook.corpus import phrasebook
from tests.untrained_runs import SMALL_GPT, exchange_tokens, perturbed_run, trained_run, untrained_run

LINES = [source for source, _ in phrasebook(size=300).pairs("train", "en", "fr")][:13]
GRU = {"family": "recurrent", "cell": "gru", "attention": "additive", "layers": 1, "d_model": 22, "dropout": 0}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    trained_run(folder / "a")
    perturbed_run(folder / "a", folder / "b", seed=2)
    data = {"data": {"train": ["a"]}}
    untrained_run(folder / "gru", {"task": "translation", "model": GRU, **data})
    untrained_run(folder / "gpt", {"task": "language_model", "model": SMALL_GPT, **data})
    exchange_tokens(perturbed_run(folder / "a", folder / "other-vocabulary", seed=3))
    return folder


def scored(translations: list[Translation]) -> list[tuple[str, float]]:
    return [(one.text, one.score) for one in translations]


def texts(translations: list[Translation]) -> list[list[str]]:
    return [[candidate.text for candidate in one.candidates] for one in translations]


def test_a_run_with_itself_translates_as_alone(runs: Path) -> None:
    alone, together = gf.load(runs / "a", engine="torch"), gf.load(runs / "a", ensemble=[runs / "a", runs / "a"])
    assert together.engine.name == "torch" and together.notice is None
    expected, found = (model.translate(LINES, beam=4) for model in (alone, together))
    assert texts(found) == texts(expected) and len(set(map(str, texts(found)))) > 9
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)
    sampling = Sampling(top_k=5, seed=3)
    assert texts(together.translate(LINES, sampling=sampling)) == texts(alone.translate(LINES, sampling=sampling))


@pytest.mark.parametrize("other", ["b", "gru"])
def test_the_members_translate_together(runs: Path, other: str) -> None:
    together = gf.load(runs / "a", ensemble=[str(runs / other)])
    assert together.settings == gf.load(runs / "a").settings  # not those of the other run
    found, swapped = together.translate(LINES, beam=3), gf.load(runs / other, ensemble=[runs / "a"])
    for name in ("a", other):
        assert scored(gf.load(runs / name, engine="torch").translate(LINES, beam=3)) != scored(found)
    swapped.settings = together.settings
    again = swapped.translate(LINES, beam=3)
    assert texts(again) == texts(found)  # a mean has no order
    assert [one.score for one in again] == pytest.approx([one.score for one in found], abs=1e-5)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_several_processes_give_the_same_lines(runs: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(process_pool, "start_method", lambda: method)
    translator, lines = gf.load(runs / "a", ensemble=[runs / "b"]), LINES * (MIN_LINES // len(LINES) + 1)
    found = list(translate_stream(translator, lines, workers=2, beam=2))
    alone = list(translate_stream(translator, lines, workers=1, beam=2))
    assert texts(found) == texts(alone)
    assert [one.score for one in found] == pytest.approx([one.score for one in alone], abs=1e-5)


def test_another_vocabulary_is_refused(runs: Path) -> None:
    with pytest.raises(UserError, match="need the same vocabulary") as refused:
        gf.load(runs / "a", ensemble=[runs / "b", runs / "other-vocabulary"])
    assert "other-vocabulary" in refused.value.where and str(runs / "a") in refused.value.message
    assert "same files" in refused.value.hint


@pytest.mark.parametrize(("run", "other"), [("a", "gpt"), ("gpt", "a")])
def test_a_run_that_does_not_translate_is_refused(runs: Path, run: str, other: str) -> None:
    with pytest.raises(UserError, match="does not translate: its task is language_model") as refused:
        gf.load(runs / run, ensemble=[runs / other])
    assert refused.value.where == str(runs / "gpt")


def test_a_missing_run_is_refused(runs: Path) -> None:
    with pytest.raises(UserError, match="no run folder") as refused:
        gf.load(runs / "a", ensemble=[runs / "absent"])
    assert "absent" in str(refused.value)


def test_the_native_engine_is_refused_and_int8_has_a_notice(runs: Path) -> None:
    with pytest.raises(UserError, match="does not run ensembles"):
        load_translator(runs / "a", ensemble=[runs / "b"], engine="native")
    translator = load_translator(runs / "a", ensemble=[runs / "b"], precision="int8")
    assert translator.notice is not None and "does not run ensembles" in translator.notice


def test_an_ensemble_cannot_be_traced(runs: Path) -> None:
    translator = gf.load(runs / "a", ensemble=[runs / "b"])
    for method in (translator.trace, translator.search):
        with pytest.raises(UserError, match="cannot be traced"):
            method(LINES[0])
