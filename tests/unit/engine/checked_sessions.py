"""Run by a test in a child process: sessions with sentences that come and go, no memory error."""

from __future__ import annotations

import random
import sys
from typing import Any

from glassformer.engine.library import INT8
from glassformer.engine.session import Request, Session
from tests.unit.engine.random_models import GPT, TRANSFORMER, options, random_model, use
from tests.unit.engine.session_fuzz import random_sentences, run_session

native = use(sys.argv[1])


def refused(session: Session, **wrong: Any) -> None:
    given: dict[str, Any] = {"options": options(), "limit": 5, "source": [3, 2]}
    try:
        session.add([Request(**given), Request(**given | wrong)])
    except ValueError:
        assert len(session) == 0 and session.step() == []
        return
    raise AssertionError(f"{wrong} was not refused")


def invalid_requests() -> None:
    session = Session(random_model(TRANSFORMER))
    beam = options(beam=3)
    for ids in ([19], [-1]):
        for wrong in ({"source": ids}, {"prompt": ids}, {"prefix": ids}, {"forbidden": ids}):
            refused(session, **wrong)
        refused(session, options=beam, terms=[[ids]])
    refused(session, source=[])
    refused(session, limit=0)
    refused(session, limit=(1 << 24) + 1)
    refused(session, prefix=[3] * 5)
    refused(session, terms=[[[3]]])  # needs a beam
    refused(session, options=beam, terms=[[[]]])
    refused(session, options=beam, terms=[[]])
    refused(session, options=beam, terms=[[[3] * 5000]])
    refused(session, options=beam, rolls=[0.5] * 5)
    refused(session, rolls=[0.5])
    for number in (-1, 0, 7, 1 << 30):
        assert native.gf_remove(session._handle, number) < 0
        assert native.gf_progress(session._handle, number, 0, 0, None) < 0
        assert native.gf_collect(session._handle, number, 5, None, None, None, None, None) < 0


def every_kind_of_request(chance: random.Random, **over: Any) -> None:
    """Prefixes, terms, forbidden tokens, prompts and sampling in one session."""
    session = Session(random_model(TRANSFORMER | over, scale=0.3))
    for _ in range(60):
        ids = [chance.randrange(3, 19) for _ in range(chance.randrange(6))]
        terms = [[ids[: 1 + chance.randrange(3)], [chance.randrange(19)]]] if ids and chance.random() < 0.5 else []
        beam = chance.choice((2, 3, 8)) if terms else 1
        rolls = [chance.random() for _ in range(13)] if beam == 1 and chance.random() < 0.5 else []
        how = options(beam=beam, no_repeat_ngram=chance.randrange(3), min_length=chance.randrange(4))
        session.add([Request(how, 13, [*ids, 2], ids[:2], ids, [4, 7], terms, rolls)])
        for number in session.step() if chance.random() < 0.8 else []:
            session.collect(number)
    while len(session):
        for number in session.step():
            session.collect(number)
    session.cross_attention([3, 4, 2], [1, 5, 6, 7], 0)
    session.cross_attention([3] * 40, [1] * 150, 0)


def continuations(chance: random.Random) -> None:
    session = Session(random_model(GPT, scale=0.3))
    for _ in range(40):
        prompt = [chance.randrange(19) for _ in range(chance.randrange(1, 20))]
        limit = chance.randrange(1, 24 - len(prompt) + 1)
        rolls = [chance.random() for _ in range(limit)]
        session.add([Request(options(eos=-1, top_k=5), limit, prompt=prompt, forbidden=(0, 1), rolls=rolls)])
        for number in session.step():
            session.collect(number)


invalid_requests()
for seed, precision in enumerate((0, INT8)):
    chance = random.Random(seed)
    shape = TRANSFORMER | {"precision": precision}
    run_session(random_model(shape, scale=0.3), random_sentences(60, 19, chance), chance)
    every_kind_of_request(chance, precision=precision)
    continuations(chance)
# Activations that overflow: no candidate is a number.
searched = [one for one in random_sentences(20, 19, random.Random(5)) if not one.rolls]
run_session(random_model(TRANSFORMER, scale=1e30), searched, random.Random(6))
print("no error")
