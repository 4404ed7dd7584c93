"""The embedded corpus: English–French–Korean sentences from a grammar, so that nothing need be downloaded.

French and Korean are functions of the English sentence, therefore exact match is a fair score. What English
leaves open is settled once: "you" is the polite *vous*, an unmarked person is masculine, Korean is in the
합니다 style. More than a third of the sentences hold an "it" or "they" that must be resolved before it can be
translated; which agent, object and cause come together in the validation and test splits is new to training.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from glassformer.errors import UserError
from glassformer.phrasebook import sentences as s
from glassformer.phrasebook import words as w
from glassformer.phrasebook.sentences import LANGUAGES, Triple
from glassformer.phrasebook.words import Mode, Tense, Verb, Words

__all__ = ["LANGUAGES", "Phrasebook", "Triple", "phrasebook"]

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, slots=True)
class Phrasebook:
    """Three splits that share no sentence in any language."""

    train: list[Triple]
    valid: list[Triple]
    test: list[Triple]

    def pairs(self, split: str, source: str, target: str) -> list[tuple[str, str]]:
        """One split as (source, target) sentences."""
        if split not in SPLITS:
            raise UserError(f"The phrasebook has no split {split!r}.", hint=f"choose one of {', '.join(SPLITS)}")
        triples: list[Triple] = getattr(self, split)
        return [(triple.text(source), triple.text(target)) for triple in triples]


# ---------------------------------------------------------------- the templates and how they are dealt


@dataclass(frozen=True, slots=True)
class _Template:
    """A sentence pattern over tables of words: `render` returns None where a combination makes no sense."""

    render: Callable[..., Triple | None]
    weight: float  # how often it is dealt compared with the others, as long as it has sentences left
    tables: tuple[Sequence[Any], ...]
    held_out: int = 0  # how many leading choices make up a combination that is held out whole

    def __len__(self) -> int:
        return prod(len(table) for table in self.tables)

    def choice(self, index: int) -> tuple[Any, ...]:
        """The index-th combination of the tables, without listing the millions before it."""
        chosen = []
        for table in self.tables:
            index, place = divmod(index, len(table))
            chosen.append(table[place])
        return tuple(chosen)


@dataclass(frozen=True, slots=True)
class _Candidate:
    triple: Triple
    marks: frozenset[Hashable]  # what no other split may share: the three sentences, the combination


_STATED: tuple[Mode, ...] = ("yes", "not", "n't")
_ALL: tuple[Mode, ...] = ("yes", "not", "n't", "?")
_ASKED: tuple[Mode, ...] = ("yes", "not", "?")
_TENSES: tuple[Tense, ...] = ("present", "past")
_SINGULAR_OR_PLURAL = (False, True)
_ORDERS = (False, True)  # whether the cause comes first
_TAKING = (w.EAT, w.DRINK, w.LIKE)
_DOING: tuple[tuple[Verb, Tense], ...] = (
    (w.SEE, "present"), (w.SEE, "past"), (w.DRAW, "past"), (w.BUY, "past"), (w.SELL, "past"),
    (w.WANT, "present"), (w.LIKE, "present"), (w.HAVE, "present"),
)  # fmt: skip
_COUNTING: tuple[tuple[Verb, Tense], ...] = (
    (w.HAVE, "present"), (w.SEE, "past"), (w.BUY, "past"), (w.DRAW, "past"),
)  # fmt: skip
_THE, _AN, _MINE, _MANY = s.Agent(w.THE), s.Agent(w.A), s.Agent(w.MY), s.Agent(w.THE, plural=True)
_ANIMATE = (_THE, _AN, _MINE, _MANY)
_NOUNS = (*w.OBJECTS, *w.PETS)
_ANY_ADJECTIVE = (None, *w.BEFORE_NOUN, *w.COLOURS)
_DESCRIBED = (
    (None, *w.BEFORE_NOUN), (None, *w.COLOURS), _NOUNS, _SINGULAR_OR_PLURAL, w.PREDICATES, _TENSES,
    ("yes", "not"),
)  # fmt: skip

TEMPLATES = (
    _Template(s.crossing, 15, (w.ANIMALS, w.CROSSED, w.CROSSING_CAUSES, _ANIMATE, _STATED, _ORDERS), 3),
    _Template(s.eating, 15, (w.ANIMALS, w.EATEN, w.EATING_CAUSES, _ANIMATE, _STATED, _ORDERS), 3),
    _Template(s.breaking, 5, (w.HITTING, w.BRITTLE, w.BREAKING_CAUSES, (_THE, _AN, _MANY), _STATED, _ORDERS), 3),
    _Template(
        s.packing,
        6,
        (w.PACKED, w.CONTAINERS, w.PACKING_CAUSES, (_THE, _MINE, _MANY, s.Agent(w.MY, plural=True)), _STATED, _ORDERS),
        3,
    ),
    _Template(s.identity, 5, (w.ADULTS, w.JOBS, (None,), _TENSES, _ASKED)),
    _Template(s.identity, 2, (w.ADULTS, w.JOBS, w.OF_PEOPLE, _TENSES, _ASKED)),
    _Template(
        s.thing, 13,
        (w.PEOPLE, _DOING, (w.A, w.THE), (None, *w.BEFORE_NOUN), (None, *w.COLOURS), _NOUNS, _STATED),
    ),
    _Template(s.description, 7, ((w.THE, *w.OWNING), *_DESCRIBED)),
    _Template(s.description, 5, (w.OWNERS, *_DESCRIBED)),
    _Template(s.meal, 4, (w.PEOPLE, _TAKING, (*w.FOODS, *w.DRINKS), (None,), w.TIMES, _ALL)),
    _Template(
        s.meal, 4, (w.PEOPLE, _TAKING, (*w.FOODS, *w.DRINKS), (*w.FOODS, *w.DRINKS), w.TIMES, ("yes", "?"))
    ),
    _Template(
        s.journey, 7, (w.PEOPLE, (w.GO, w.COME_BACK), w.PLACES, w.TRANSPORT, w.TIMES, _ALL)
    ),
    _Template(s.journey, 1.5, (w.PEOPLE, (w.GO,), w.PLACES, w.TRANSPORT, (w.TOMORROW,), ("yes",))),
    _Template(s.counting, 5, (w.PEOPLE, _COUNTING, w.NUMBERS, _ANY_ADJECTIVE, _NOUNS, ("yes", "?"))),
    _Template(
        s.location,
        5,
        ((w.THE, w.MY), (*w.SMALL_THINGS, *w.PLACES), w.POSITIONS, (*w.LANDMARKS, *w.PLACES), _ASKED),
    ),
    _Template(
        s.where,
        3,
        ((w.THE, *w.OWNING, *w.OWNERS), _ANY_ADJECTIVE, (*_NOUNS, *w.PLACES), _SINGULAR_OR_PLURAL),
    ),
    _Template(s.wellbeing, 0.5, (w.PEOPLE, (Words(), Words("today", "aujourd'hui", "오늘")), ("yes", "?"))),
    _Template(s.greeting, 1, (w.OPENINGS, w.ADDRESSEES, s.FOLLOWING)),
)  # fmt: skip

CLASSICS = (
    Triple("I am a student", "Je suis étudiant", "저는 학생입니다", False),
    Triple("I am fine", "Je vais bien", "저는 잘 지냅니다", False),
    Triple("How are you?", "Comment allez-vous ?", "어떻게 지내십니까?", False),
    Triple("Hello", "Bonjour", "안녕하세요", False),
    Triple("Good evening", "Bonsoir", "좋은 저녁입니다", False),
    Triple("Thank you", "Merci", "감사합니다", False),
    Triple("Goodbye", "Au revoir", "안녕히 가세요", False),
    Triple("See you tomorrow", "À demain", "내일 뵙겠습니다", False),
)
# The examples of the literature on attention and of Winograd's schema; what follows a template's number is
# agent, object, cause, determiner and mode. They are always in the test split.
LITERATURE = (
    (0, "animal", "street", "too tired", _THE, "n't"),
    (0, "animal", "street", "too wide", _THE, "n't"),
    (1, "dog", "food", "hungry", _AN, "yes"),
    (1, "dog", "food", "delicious", _AN, "yes"),
    (3, "trophy", "suitcase", "too big", _THE, "n't"),
    (3, "trophy", "suitcase", "too small", _THE, "n't"),
)


def _candidate(template: _Template, choice: tuple[Any, ...]) -> _Candidate | None:
    triple = template.render(*choice)
    if triple is None:
        return None
    marks: set[Hashable] = {triple.english, triple.french, triple.korean}
    if template.held_out:
        marks.add((template.render.__name__, *choice[: template.held_out]))
    return _Candidate(triple, frozenset(marks))


def _shuffled(count: int, rng: random.Random) -> Iterator[int]:
    """range(count) in random order, one at a time: Fisher and Yates, remembering only what was moved."""
    moved: dict[int, int] = {}
    for here in range(count):
        there = rng.randrange(here, count)
        yield moved.get(there, there)
        moved[there] = moved.pop(here, here)


def _sentences(number: int, seed: int) -> Iterator[_Candidate]:
    template = TEMPLATES[number]
    rng = random.Random(f"{seed} {number}")  # a string seeds alike under any PYTHONHASHSEED
    for index in _shuffled(len(template), rng):
        if candidate := _candidate(template, template.choice(index)):
            yield candidate


def _deal(seed: int) -> Iterator[_Candidate]:
    """All sentences, the templates interleaved by weight so that every stretch has the same mixture."""
    decks = [_sentences(number, seed) for number in range(len(TEMPLATES))]
    turns = [(1 / template.weight, number) for number, template in enumerate(TEMPLATES)]
    heapq.heapify(turns)
    while turns:
        time, number = turns[0]
        if candidate := next(decks[number], None):
            yield candidate
            heapq.heapreplace(turns, (time + 1 / TEMPLATES[number].weight, number))
        else:
            heapq.heappop(turns)


def _literature() -> list[_Candidate]:
    found = []
    for number, *names, who, mode in LITERATURE:
        template = TEMPLATES[number]
        entries = [
            next(entry for entry in table if entry.english == name)
            for table, name in zip(template.tables, names, strict=False)
        ]
        candidate = _candidate(template, (*entries, who, mode, False))
        assert candidate is not None
        found.append(candidate)
    return found


def _take(count: int, stream: Iterator[_Candidate], closed: set[Hashable]) -> list[_Candidate]:
    """The next sentences that share nothing with the splits whose marks are closed."""
    taken: dict[str, _Candidate] = {}
    while len(taken) < count and (candidate := next(stream, None)):
        if closed.isdisjoint(candidate.marks):
            taken.setdefault(candidate.triple.english, candidate)
    return list(taken.values())


def _with_known_words(candidates: list[_Candidate], train: list[Triple], count: int) -> list[Triple]:
    """The first `count`, preferring those of which training shows every word, as it is written."""
    known = {word for triple in train for language in LANGUAGES for word in triple.text(language).split()}

    def strange(triple: Triple) -> bool:
        return not all(known.issuperset(triple.text(language).split()) for language in LANGUAGES)

    return sorted((candidate.triple for candidate in candidates), key=strange)[:count]


def phrasebook(*, size: int = 24_000, seed: int = 1) -> Phrasebook:
    """A corpus of `size` distinct sentences; of 24 000, the test split has 1000 and the validation split 500.

    The same size and seed give the same corpus on every machine. With the default size every word of the test
    sentences occurs in training, and often; only their combinations are new.
    """
    most = sum(len(template) for template in TEMPLATES)
    if not 50 <= size <= most:
        raise UserError(f"A phrasebook of {size} sentences cannot be made.", hint=f"ask for 50 to {most} sentences")
    stream, literature = _deal(seed), _literature()
    tests, valids = max(size // 24 - len(literature), 4), max(size // 48, 4)
    closed: set[Hashable] = {classic.text(language) for classic in CLASSICS for language in LANGUAGES}
    closed = closed.union(*(candidate.marks for candidate in literature))
    # A tenth too many, because some may turn out to have a word that training lacks.
    test = _take(tests + tests // 10, stream, closed)
    closed = closed.union(*(candidate.marks for candidate in test))
    valid = _take(valids + valids // 10, stream, closed)
    closed = closed.union(*(candidate.marks for candidate in valid))

    wanted = size - len(literature) - tests - valids - len(CLASSICS)
    train = [*CLASSICS, *(candidate.triple for candidate in _take(wanted, stream, closed))]
    missing = wanted + len(CLASSICS) - len(train)
    if missing:
        raise UserError(f"The grammar cannot give {size} sentences.", hint=f"ask for fewer than {size - missing}")
    return Phrasebook(
        train,
        valid=_with_known_words(valid, train, valids),
        test=[*(candidate.triple for candidate in literature), *_with_known_words(test, train, tests)],
    )
