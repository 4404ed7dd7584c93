"""Continuous batching: the output of a sentence does not depend on when it joins, or on other sentences."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from glassformer.decoding import Hypothesis
from glassformer.engine.library import FP32, INT8
from glassformer.engine.model import NativeModel, Worker
from glassformer.engine.session import Request, Session
from tests.unit.engine.random_models import EOS, GPT, SOS, TRANSFORMER, options, random_model
from tests.unit.engine.session_fuzz import random_sentences, run_session

pytestmark = pytest.mark.usefixtures("native")

VOCAB = 67
SHAPE = TRANSFORMER | {"vocab": VOCAB, "d_model": 48, "heads": 3, "d_ff": 67, "decoder_layers": 2}


def decode(model: NativeModel, **request: Any) -> list[Hypothesis]:
    """Decode one sentence alone."""
    session = Session(model)
    (number,) = session.add([Request(**{"options": options(), "limit": 23} | request)])
    while number not in session.step():
        pass
    return session.collect(number)


@pytest.fixture
def model() -> NativeModel:
    return random_model(SHAPE, scale=0.3)


@pytest.mark.parametrize("precision", [FP32, INT8], ids=["fp32", "int8"])
def test_sentences_that_come_and_go_are_decoded_as_alone(precision: int) -> None:
    chance = random.Random(7)
    model = random_model(SHAPE | {"precision": precision}, scale=0.3)
    sentences = random_sentences(60, VOCAB, chance)
    assert run_session(model, sentences, chance) == {one: one.alone(model) for one in sentences}


def test_a_forced_prefix_counts_like_a_chosen_one(model: NativeModel) -> None:
    source, how = [5, 9, 31, EOS], options(eos=66)  # which it does not write
    (free,) = decode(model, source=source, options=how)
    (forced,) = decode(model, source=source, options=how, prefix=free.tokens[:4])
    assert forced.tokens == free.tokens
    assert forced.log_probability == pytest.approx(free.log_probability, abs=1e-4)
    other = [token + 1 for token in free.tokens[:3]]
    for beam in (1, 3):
        found = decode(model, source=source, options=options(beam=beam), prefix=other)
        assert all(one.tokens[:3] == other for one in found)
    assert forced.log_probability > decode(model, source=source, options=how, prefix=other)[0].log_probability


def contains(tokens: list[int], ids: list[int]) -> bool:
    return any(tokens[i : i + len(ids)] == ids for i in range(len(tokens)))


def test_terms_occur_in_every_hypothesis_that_ended(model: NativeModel) -> None:
    terms = [[[30, 7, 11], [23, 58]], [[50]], [[6, 6]]]
    found = decode(model, source=[5, 9, EOS], options=options(beam=8), terms=terms)
    ended = [one for one in found if one.finished]
    assert found[0] in ended
    assert all(any(contains(one.tokens, ids) for ids in term) for one in ended for term in terms)
    (best, *_) = decode(model, source=[5, 9, EOS], options=options(beam=8))
    assert not any(contains(best.tokens, ids) for term in terms for ids in term)


def test_forbidden_tokens_are_never_written(model: NativeModel) -> None:
    how = options(min_length=23)
    (free,) = decode(model, source=[5, EOS], options=how)
    (found,) = decode(model, source=[5, EOS], options=how, forbidden=free.tokens[:3])
    assert not set(found.tokens) & set(free.tokens[:3])


def test_a_language_model_continues_a_prompt_as_step_by_step() -> None:
    model = random_model(GPT)
    prompt, expected, reader = [3, 8, 5], list[int](), Worker(model)
    reader.start(23)
    unread = prompt
    for _ in range(20):
        logits = list(reader.read(unread))
        logits[4] = float("-inf")
        unread = [max(range(19), key=logits.__getitem__)]
        expected += unread
    (found,) = decode(model, prompt=prompt, options=options(eos=-1), forbidden=[4], limit=21)
    assert found.tokens[:20] == expected and len(set(expected)) > 3 and not found.finished
    rest = {"options": options(eos=-1), "forbidden": [4], "limit": 11}
    assert decode(model, prompt=prompt + expected[:10], **rest)[0].tokens == found.tokens[10:]


def test_progress_is_the_beginning_of_the_output(model: NativeModel) -> None:
    session, seen = Session(model), list[list[int]]()
    (number,) = session.add([Request(options(min_length=7), 9, source=[5, 9, EOS])])
    while number not in session.step():
        seen.append(session.progress(number))
    (found,) = session.collect(number)
    assert seen == [found.tokens[: i + 1] for i in range(len(seen))] and len(seen) >= 7


def test_attention_weights_of_a_layer_are_distributions_over_the_source(model: NativeModel) -> None:
    source, tokens = [5, 9, 31, EOS], [SOS, 7, 8, 9, 10]
    first, second = (Session(model).cross_attention(source, tokens, layer) for layer in (0, 1))
    assert [len(row) for row in first] == [len(source)] * len(tokens)
    assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in (*first, *second)) and first != second
    assert Session(model).cross_attention(source, tokens[:3], 0) == first[:3]  # no attention to later tokens
    with pytest.raises(ValueError, match="invalid argument"):
        Session(model).cross_attention(source, tokens, 2)


def test_one_request_that_cannot_be_sampled_fails_alone() -> None:
    """Weights of 10³⁰: no logit is finite."""
    session = Session(random_model(TRANSFORMER, scale=1e30))
    both = session.add([Request(options(), 5, [3, EOS]), Request(options(), 5, [3, EOS], rolls=[0.5] * 5)])
    ended = set[int]()
    while len(ended) < 2:
        ended |= set(session.step())
    with pytest.raises(FloatingPointError):
        session.collect(both[1])
    assert not session.collect(both[0])[0].finished


@pytest.mark.slow
def test_sessions_have_no_memory_error(sanitized: Callable[..., str]) -> None:
    assert sanitized("checked_sessions") == "no error\n"
