"""A draft by 8-bit weights is fast; what is shown is what the exact model writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.studio import shelf
from glassformer.studio.asking import Asked, ask
from glassformer.studio.shelf import Shelf

SENTENCE = "The animal didn't cross the street because it was too tired."


def test_a_large_model_has_a_drafter_that_agrees(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "LARGE", 0)
    opened = Shelf([run]).open("phrasebook")
    assert opened.drafter is not opened.predictor
    exact = gf.load(run)
    assert ask(opened, Asked("phrasebook", SENTENCE)).output == exact.translate([SENTENCE], beam=1)[0].text


def test_a_small_model_needs_none(run: Path) -> None:
    opened = Shelf([run]).open("phrasebook")
    assert opened.drafter is opened.predictor


def test_a_draft_that_the_model_would_not_have_written_is_not_shown(run: Path) -> None:
    opened = Shelf([run]).open("phrasebook")
    other = gf.load(run)
    with torch.no_grad():
        for weight in other.model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.2)
    assert other.likeliest(SENTENCE) != opened.predictor.likeliest(SENTENCE)
    shown = ask(replace(opened, drafter=other), Asked("phrasebook", SENTENCE))
    assert shown.output == opened.predictor.translate([SENTENCE], beam=1)[0].text


def test_the_likeliest_tokens_are_those_of_a_free_run(run: Path) -> None:
    translator = gf.load(run)
    free = translator.trace(SENTENCE)
    assert translator.likeliest(SENTENCE) == free["decoder.tokens"].tolist()[1:]
    given = translator.trace(SENTENCE, translator.likeliest(SENTENCE))
    torch.testing.assert_close(given["logits"], free["logits"], atol=2e-5, rtol=1e-4)
