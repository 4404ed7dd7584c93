"""A draft of the native engine is fast; what is shown is what the traced model writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.decoding import Hypothesis
from glassformer.inference.search_engine import Search
from glassformer.studio.model_store import ModelStore
from glassformer.studio.tracing import TraceRequest, ask
from glassformer.text.tokenizer import EOS

SENTENCE = "The animal didn't cross the street because it was too tired."


@dataclass
class WrongDraft:
    """An engine that writes other tokens than the model."""

    tokens: list[int]
    finished: bool
    name: str = "test"
    max_positions: int | None = None

    def search(self, sources: list[list[int]], limits: list[int], how: Search) -> list[list[Hypothesis]]:
        return [[Hypothesis(self.tokens, -1.0, -1.0, self.finished)]]


@pytest.mark.parametrize("finished", [True, False], ids=["with <eos>", "cut off"])
@pytest.mark.parametrize("change", ["stops after 1", "stops after 5", "another token"])
def test_a_draft_that_the_model_would_not_have_written_is_not_shown(run: Path, change: str, finished: bool) -> None:
    opened = ModelStore([run]).load("phrasebook")
    exact = gf.load(run)
    written = exact.greedy_tokens(SENTENCE)
    tokens = [*written[:3], written[3] + 1, *written[4:-1]] if change == "another token" else written[: int(change[-1])]
    opened.predictor.engine = WrongDraft(tokens, finished)
    shown = ask(opened, TraceRequest("phrasebook", SENTENCE))
    assert shown.output == exact.translate([SENTENCE], beam=1)[0].text
    assert shown.trace.written_tokens == written
    assert exact.trace_output(SENTENCE, opened.predictor.greedy_tokens(SENTENCE)) is None


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
