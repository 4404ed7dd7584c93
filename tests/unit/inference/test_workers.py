"""Workers: any number of them gives the same lines in the same order."""

from __future__ import annotations

from pathlib import Path

import pytest

import glassformer as gf
from glassformer.data import process_pool as parallel
from glassformer.decoding.sampling import Sampling
from glassformer.inference import workers as workers_module
from glassformer.inference.translator import Translator, with_beam
from glassformer.inference.workers import MAX_JOB_LINES, MIN_LINES, translate_stream
from glassformer.phrasebook.corpus import phrasebook


@pytest.fixture(scope="module")
def translator(phrasebook_run: Path) -> Translator:
    return gf.load(phrasebook_run)


def lines(count: int) -> list[str]:
    sources = [source for source, _ in phrasebook(size=700).pairs("train", "en", "fr")]
    return [("" if i % 17 == 3 else sources[i % len(sources)]) for i in range(count)]


@pytest.mark.parametrize("count", [0, 1, MIN_LINES - 1, MIN_LINES, 5 * MAX_JOB_LINES + 41])
def test_any_number_of_workers_gives_the_same_lines(
    translator: Translator, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "STREAM_LINES", 150)  # several windows
    alone = [t.text for t in translator.translate(lines(count), beam=2)]
    for workers in (1, 3):
        found = translate_stream(translator, iter(lines(count)), workers=workers, beam=2)
        assert [t.text for t in found] == alone
    assert count < 100 or len(set(alone)) > 2  # lines that are all alike could not show an order


def test_sampling_does_not_depend_on_the_number_of_workers(translator: Translator) -> None:
    how = Sampling(temperature=1.5, seed=3)
    some = lines(3 * MAX_JOB_LINES + 30)
    one, two = (translate_stream(translator, some, workers=n, sampling=how) for n in (1, 2))
    assert [t.text for t in one] == [t.text for t in two]


def test_processes_that_are_spawned_give_the_same_lines(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert translator.loaded_from is not None
    loaded = gf.load(translator.loaded_from, engine="torch")
    loaded.settings = with_beam(loaded.settings, 3)
    some = lines(2 * MIN_LINES)
    found = {"native": [t.text for t in translate_stream(translator, some, workers=2, beam=3)]}
    for method in ("fork", "spawn"):
        monkeypatch.setattr(parallel, "start_method", lambda method=method: method)
        found[method] = [t.text for t in translate_stream(loaded, some, workers=2)]
    assert found["spawn"] == found["fork"] == found["native"]


def test_a_translator_without_a_run_is_not_spawned(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "start_method", lambda: "spawn")
    made = Translator(translator.model, translator.tokenizer, translator.settings)
    some = lines(2 * MIN_LINES)
    assert [t.text for t in translate_stream(made, some, workers=2)] == [t.text for t in made.translate(some)]
