"""Sentences that join, leave and are removed at any step, in any order; imports no PyTorch."""

from __future__ import annotations

import random
from dataclasses import dataclass

from glassformer.decoding import Hypothesis
from glassformer.engine.model import NativeModel, Worker
from glassformer.engine.session import Request, Session
from tests.unit.engine.random_models import EOS, options


@dataclass(frozen=True)
class Sentence:
    """One sentence and how to decode it."""

    source: tuple[int, ...]
    beam: int
    limit: int
    rolls: tuple[float, ...] = ()

    def request(self) -> Request:
        return Request(options(beam=self.beam), self.limit, self.source, rolls=self.rolls)

    def alone(self, model: NativeModel) -> list[Hypothesis]:
        """The hypotheses as the batch interface finds them, without batch-mates."""
        rolls = [self.rolls] if self.rolls else None
        return Worker(model).translate([self.source], options(beam=self.beam), [self.limit], rolls=rolls)[0]


def random_sentences(count: int, vocab: int, chance: random.Random) -> list[Sentence]:
    """Sentences of 1 to 12 tokens, decoded greedily, by beam search, and by sampling; a few outputs are long."""
    found = []
    for _ in range(count):
        source = (*(chance.randrange(EOS + 1, vocab) for _ in range(chance.randrange(12))), EOS)
        beam, limit = chance.choice((1, 1, 2, 3, 5)), chance.choice((1, 2, 7, 19, 150))
        sampled = beam == 1 and chance.random() < 0.5
        found.append(Sentence(source, beam, limit, tuple(chance.random() for _ in range(limit * sampled))))
    return found


Found = dict[Sentence, list[Hypothesis]]


def run_session(model: NativeModel, sentences: list[Sentence], chance: random.Random) -> Found:
    """Decode sentences in one session. Some are removed on the way, and join again later."""
    session, waiting, found, removals = Session(model), list(sentences), Found(), len(sentences) // 3
    inside: dict[int, Sentence] = {}
    while waiting or inside:
        joining = [waiting.pop() for _ in range(min(len(waiting), chance.randrange(4)))]
        if joining:
            numbers = session.add([sentence.request() for sentence in joining])
            inside |= zip(numbers, joining, strict=True)
        for number in session.step():
            found[inside.pop(number)] = session.collect(number)
        if inside and removals and chance.random() < 0.3:
            removals -= 1
            number = chance.choice(list(inside))
            session.progress(number)
            session.remove(number)
            waiting.append(inside.pop(number))
    assert len(session) == 0
    return found
