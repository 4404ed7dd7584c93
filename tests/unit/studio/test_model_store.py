"""A draft by 8-bit weights is fast; what is shown is what the exact model writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.inference.translator import Translator
from glassformer.studio import model_store
from glassformer.studio.asking import TraceRequest, ask
from glassformer.studio.model_store import ModelStore
from glassformer.text.tokenizer import EOS

SENTENCE = "The animal didn't cross the street because it was too tired."


def test_a_large_model_has_a_drafter_that_agrees(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_store, "LARGE", 0)
    opened = ModelStore([run]).load("phrasebook")
    assert opened.drafter is not opened.predictor
    exact = gf.load(run)
    assert ask(opened, TraceRequest("phrasebook", SENTENCE)).output == exact.translate([SENTENCE], beam=1)[0].text


def test_a_small_model_needs_none(run: Path) -> None:
    opened = ModelStore([run]).load("phrasebook")
    assert opened.drafter is opened.predictor


def test_a_draft_that_the_model_would_not_have_written_is_not_shown(run: Path) -> None:
    opened = ModelStore([run]).load("phrasebook")
    other = gf.load(run)
    with torch.no_grad():
        for weight in other.model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.2)
    assert other.greedy_tokens(SENTENCE) != opened.predictor.greedy_tokens(SENTENCE)
    shown = ask(replace(opened, drafter=other), TraceRequest("phrasebook", SENTENCE))
    assert shown.output == opened.predictor.translate([SENTENCE], beam=1)[0].text


@dataclass
class Hasty:
    """A drafter that writes what the model writes, but stops after a few tokens."""

    translator: Translator
    tokens: int
    ends: list[int]

    def greedy_tokens(self, source: str) -> list[int]:
        return [*self.translator.greedy_tokens(source)[: self.tokens], *self.ends]


@pytest.mark.parametrize("ends", [[EOS], []], ids=["with <eos>", "cut off"])
@pytest.mark.parametrize("tokens", [1, 5])
def test_a_draft_that_stops_too_early_is_not_shown(run: Path, tokens: int, ends: list[int]) -> None:
    opened = ModelStore([run]).load("phrasebook")
    exact = opened.predictor
    hasty = Hasty(exact, tokens, ends)
    shown = ask(replace(opened, drafter=hasty), TraceRequest("phrasebook", SENTENCE))
    assert shown.output == exact.translate([SENTENCE], beam=1)[0].text
    assert shown.trace.written_tokens == exact.greedy_tokens(SENTENCE)
    assert exact.trace_output(SENTENCE, hasty.greedy_tokens(SENTENCE)) is None


@pytest.mark.parametrize("limit", [None, 3])
def test_the_likeliest_tokens_are_those_of_a_free_run(run: Path, limit: int | None) -> None:
    translator = gf.load(run)
    translator.settings = translator.settings.model_copy(update={"max_length": limit})
    free, written = translator.trace(SENTENCE), translator.greedy_tokens(SENTENCE)
    assert written == free.written_tokens
    assert (written[-1] == EOS) == (limit is None)
    own = translator.trace_output(SENTENCE, written)
    assert own is not None and own.written == free.written
    torch.testing.assert_close(own["logits"], free["logits"], atol=2e-5, rtol=1e-4)


def test_a_translation_that_is_cut_off_is_shown_whole(run: Path) -> None:
    opened = ModelStore([run]).load("phrasebook")
    opened.predictor.settings = opened.predictor.settings.model_copy(update={"max_length": 3})
    expected = opened.predictor.translate([SENTENCE], beam=1)[0].text
    for free in (False, True):
        assert ask(opened, TraceRequest("phrasebook", SENTENCE, free=free)).output == expected
