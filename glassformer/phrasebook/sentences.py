"""Sentence patterns of the phrasebook. Each public function renders one pattern in three languages.

A pattern returns None for a combination of words that makes no sense.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from glassformer.errors import UserError
from glassformer.phrasebook import words as w
from glassformer.phrasebook.words import (
    Adjective,
    Cause,
    Determiner,
    Job,
    Mode,
    Noun,
    Phrase,
    Tense,
    Verb,
    Words,
    particle,
    polite,
)

LANGUAGES = ("en", "fr", "ko")


@dataclass(frozen=True, slots=True)
class Triple:
    """One sentence in three languages."""

    english: str
    french: str
    korean: str
    pronoun: bool  # whether it contains an "it" or "they" that must be resolved
    meant: str = field(default="", compare=False)  # the English noun that the pronoun refers to
    other: str = field(default="", compare=False)  # the noun that it does not refer to

    def text(self, language: str) -> str:
        """Return the sentence in "en", "fr" or "ko"."""
        if language not in LANGUAGES:
            raise UserError(f"The phrasebook has no language {language!r}.", hint=f"use one of {', '.join(LANGUAGES)}")
        return (self.english, self.french, self.korean)[LANGUAGES.index(language)]


# ---------------------------------------------------------------- phrases and clauses in each language


def _words(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _triple(
    english: str, french: str, korean: str, *, end: str = ".", pronoun: bool = False, nouns: tuple[str, str] = ("", "")
) -> Triple:
    french = w.french_spelling(french) + (" ?" if end == "?" else end)  # French puts a space before "?"
    english, french = (text[0].upper() + text[1:] for text in (english, french))
    return Triple(english + end, french, korean + end, pronoun, *nouns)


def _noun_phrase(determiner: Determiner, noun: Noun, *adjectives: Adjective | None, plural: bool = False) -> Phrase:
    """Return a noun phrase: the small red house, la petite maison rouge, 그 작은 빨간 집."""
    described = [adjective for adjective in adjectives if adjective]
    english = _words(*(a.english for a in described), w.english_plural(noun.english) if plural else noun.english)
    english = w.english_article(english) if determiner is w.A else f"{determiner.english} {english}"

    head = w.french_plural(noun.french) if plural else noun.french
    before: list[str] = []
    after: list[str] = []
    for adjective in described:
        form = adjective.french(noun.gender, plural)
        if adjective.before_vowel and w.elides(head) and noun.gender == "m" and not plural:
            form = adjective.before_vowel
        (before if adjective.before else after).append(form)
    masculine = noun.gender == "m"
    article = determiner.plural if plural else determiner.masculine if masculine else determiner.feminine
    owner = f"de {determiner.owner}" if determiner.owner else ""
    french = _words(article, *before, head, *after, owner)

    korean_adjectives = [a.of_living if noun.living and a.of_living else a.korean for a in described]
    korean = _words(determiner.korean, *korean_adjectives, noun.korean + ("들" if plural else ""))
    return Phrase(english, french, korean, noun.gender, plural, form=4 if plural else 1)


def _english_clause(subject: Phrase, verb: Verb, rest: str, tense: Tense, mode: Mode) -> str:
    base, third, past = verb.english.split("/")
    auxiliary = "did" if tense == "past" else "does" if subject.form == 1 else "do"
    if tense == "future":
        return _words(subject.english, "will", base, rest)
    if mode == "?":
        return _words(auxiliary, subject.english, base, rest)
    if mode == "yes":
        present = third if subject.form == 1 else base
        return _words(subject.english, past if tense == "past" else present, rest)
    return _words(subject.english, auxiliary + ("n't" if mode == "n't" else " not"), base, rest)


def _french_verb(finite: str, mode: Mode, participle: str = "") -> str:
    return _words("ne", finite, "pas", participle) if mode in ("not", "n't") else _words(finite, participle)


def _french_clause(subject: Phrase, verb: Verb, rest: str, tense: Tense, mode: Mode) -> str:
    question = "est-ce que" if mode == "?" else ""
    if tense == "future":
        predicate = w.GO_FUTURE[subject.form]
    elif tense == "present":
        predicate = _french_verb(verb.present.split("/")[subject.form], mode)
    elif verb.with_etre:  # with être the participle agrees with the subject: elle est allée
        agreeing = Adjective("", verb.participle).french(subject.gender, subject.plural)
        predicate = _french_verb(w.ETRE[subject.form], mode, agreeing)
    else:
        predicate = _french_verb(w.AVOIR[subject.form], mode, verb.participle)
    return _words(question, subject.french, predicate, rest)


def _korean_verb(verb: Verb, tense: Tense, mode: Mode, *, honorific: bool = False) -> str:
    stem, past = verb.stem, verb.past
    if tense == "future":
        return stem[:-1] + chr(ord(stem[-1]) + w.L) + " 것입니다"  # 가 → 갈 것입니다
    if mode in ("not", "n't"):
        stem, past = verb.negative if verb.negative[0] else (f"{stem}지 않", f"{stem}지 않았")
    elif honorific:
        stem = verb.polite_stem or particle(stem, "으시/시")
        past = stem[:-1] + "셨"
    statement = polite(past if tense == "past" else stem)
    return statement[:-1] + "까" if mode == "?" else statement


def _addresses_you(subject: Phrase, mode: Mode) -> bool:
    """Return whether this is a question to "you": Korean uses an honorific verb and omits the pronoun."""
    return mode == "?" and subject is w.YOU


def _topic(subject: Phrase, mode: Mode) -> str:
    return "" if _addresses_you(subject, mode) else particle(subject.korean, "은/는")


def _clause(subject: Phrase, verb: Verb, rest: Words, when: Words, mode: Mode) -> Triple:
    """Render subject, verb and the rest. The Korean order is subject, time, rest, verb."""
    korean_verb = _korean_verb(verb, when.tense, mode, honorific=_addresses_you(subject, mode))
    return _triple(
        _english_clause(subject, verb, _words(rest.english, when.english), when.tense, mode),
        _french_clause(subject, verb, _words(rest.french, when.french), when.tense, mode),
        _words(_topic(subject, mode), when.korean, rest.korean, korean_verb),
        end="?" if mode == "?" else ".",
    )


# ---------------------------------------------------------------- sentences with a pronoun to resolve


def _because(cause: Cause, meant: Phrase, tense: Tense) -> tuple[str, str]:
    """Render the cause: because it was too tired, elle était trop fatiguée. French agrees with the antecedent."""
    past = tense == "past"
    be, avoir = (w.BE_PAST, w.AVOIR_IMPERFECT) if past else (w.BE, w.AVOIR)
    etre = w.ETRE_IMPERFECT if past else w.ETRE
    english = f"because {'they' if meant.plural else 'it'} {be[meant.form]} {cause.english}"
    pronoun = ("il" if meant.gender == "m" else "elle") + ("s" if meant.plural else "")
    if isinstance(cause.french, Adjective):
        too = "trop" if cause.english.startswith("too ") else ""
        state = _words(etre[meant.form], too, cause.french.french(meant.gender, meant.plural))
    elif cause.french.startswith("ne pas "):
        state = f"ne {avoir[meant.form]} pas {cause.french.removeprefix('ne pas ')}"
    else:
        state = f"{avoir[meant.form]} {cause.french}"
    return english, f"{pronoun} {state}"


def _resolved(
    agent: Phrase, verb: Verb, thing: Phrase, rest: Words, cause: Cause, tense: Tense, mode: Mode, *, early: bool
) -> Triple | None:
    """Render agent, verb, thing, because it …; with `early`, the cause comes first.

    Korean has no "it" and repeats the antecedent.
    """
    if cause.negative == (mode == "yes") or (early and agent.english.startswith(("a ", "an "))):
        return None  # a pronoun cannot precede an indefinite noun
    meant, other = (agent, thing) if cause.of_agent else (thing, agent)
    english, french = _because(cause, meant, tense)
    topical = (
        not agent.korean.endswith(("마리", "하나")) and verb is not w.BREAK
    )  # newly introduced or inanimate: 이/가
    subject = particle(agent.korean, "은/는" if topical else "이/가")
    if cause.of_agent:
        korean = _words(subject, cause.korean, rest.korean)
    else:
        korean = _words(particle(thing.korean, "이/가"), cause.korean, subject, rest.korean)
    happened = _english_clause(agent, verb, rest.english, tense, mode)
    arrive = _french_clause(agent, verb, rest.french, tense, mode)
    return _triple(
        f"{english}, {happened}" if early else f"{happened} {english}",
        f"comme {french}, {arrive}" if early else f"{arrive} parce que {french}",
        _words(korean, _korean_verb(verb, tense, mode)),
        pronoun=True,
        nouns=(meant.english.split()[-1], other.english.split()[-1]),
    )


@dataclass(frozen=True, slots=True)
class Agent:
    """Determiner and number of the agent: a dog, the dogs, my dog."""

    determiner: Determiner
    plural: bool = False

    def phrase(self, noun: Noun) -> Phrase:
        phrase = _noun_phrase(self.determiner, noun, plural=self.plural)
        if self.determiner is not w.A:
            return phrase
        one = "한 마리" if noun.living else "하나"
        return Phrase(phrase.english, phrase.french, f"{phrase.korean} {one}", noun.gender)


def _fits(cause: Cause, agent: Noun, thing: Noun) -> bool:
    """Return whether the cause makes sense for these nouns."""
    meant = agent if cause.of_agent else thing
    return agent is not thing and (not cause.only or meant.english in cause.only)


def _with_object(agent: Phrase, verb: Verb, thing: Noun, cause: Cause, mode: Mode, *, early: bool) -> Triple | None:
    phrase = _noun_phrase(w.THE_PLAIN, thing)
    rest = Words(phrase.english, phrase.french, particle(phrase.korean, "을/를"))
    return _resolved(agent, verb, phrase, rest, cause, "past", mode, early=early)


def crossing(agent: Noun, thing: Noun, cause: Cause, who: Agent, mode: Mode, early: bool = False) -> Triple | None:
    """Render "The animal didn't cross the street because it was too tired"."""
    if not _fits(cause, agent, thing):
        return None
    verb = w.CROSS if thing.english in w.CROSSED_OVER else w.CROSS_LAND
    return _with_object(who.phrase(agent), verb, thing, cause, mode, early=early)


def eating(agent: Noun, thing: Noun, cause: Cause, who: Agent, mode: Mode, early: bool = False) -> Triple | None:
    """Render "A dog ate the food because it was hungry"."""
    unlikely = thing.english in ("meat", "fish") and agent.english not in w.MEAT_EATERS
    if unlikely or not _fits(cause, agent, thing):
        return None
    return _with_object(who.phrase(agent), w.EAT, thing, cause, mode, early=early)


def breaking(agent: Noun, thing: Noun, cause: Cause, who: Agent, mode: Mode, early: bool = False) -> Triple | None:
    """Render "The stone broke the window because it was heavy"."""
    if not _fits(cause, agent, thing):
        return None
    return _with_object(who.phrase(agent), w.BREAK, thing, cause, mode, early=early)


def packing(agent: Noun, thing: Noun, cause: Cause, who: Agent, mode: Mode, early: bool = False) -> Triple | None:
    """Render "The trophy doesn't fit in the suitcase because it is too big"."""
    if thing.english == "car" and agent.english not in w.FITTING_A_CAR:
        return None
    if not _fits(cause, agent, thing):
        return None
    container = _noun_phrase(w.THE_PLAIN, thing)
    rest = Words(f"in {container.english}", f"dans {container.french}", f"{container.korean}에")
    return _resolved(who.phrase(agent), w.FIT, container, rest, cause, "present", mode, early=early)


# ---------------------------------------------------------------- other sentences


def profession(subject: Phrase, job: Job, adjective: Adjective | None, tense: Tense, mode: Mode) -> Triple | None:
    """Render "She is a student", elle est étudiante. With an adjective French needs the article: un bon médecin."""
    if mode == "?" and subject in (w.I, w.WE):
        return None
    if adjective and (subject in (w.HE, w.SHE) or subject.plural):  # French would say c'est une bonne …
        return None
    past = tense == "past"
    be = (w.BE_PAST if past else w.BE)[subject.form]
    etre = (w.ETRE_IMPERFECT if past else w.ETRE)[subject.form]
    title = _words(adjective.english if adjective else "", job.english)
    title = w.english_plural(title) if subject.plural else w.english_article(title)
    french = job.french(subject.gender, subject.plural)
    if adjective:
        form, article = adjective.french(subject.gender, False), "un" if subject.gender == "m" else "une"
        french = _words(article, form, french) if adjective.before else _words(article, french, form)
    korean = _words(adjective.korean if adjective else "", job.korean)
    honorific = _addresses_you(subject, mode)
    if mode == "?":
        english = _words(be, subject.english, title)
        french = _words("est-ce que", subject.french, etre, french)
    else:
        english = _words(subject.english, be, "not" if mode == "not" else "", title)
        french = _words(subject.french, _french_verb(etre, mode), french)
    korean = _words(_topic(subject, mode), w.korean_copula(korean, past=past, mode=mode, honorific=honorific))
    return _triple(english, french, korean, end="?" if mode == "?" else "")


def _natural(noun: Noun, *adjectives: Adjective | None) -> bool:
    """Return whether the colours fit the noun: no green horses."""
    return not noun.living or all(not a or not a.colour or a.english in w.FUR for a in adjectives)


def thing(
    subject: Phrase,
    action: tuple[Verb, Tense],
    determiner: Determiner,
    before: Adjective | None,
    colour: Adjective | None,
    noun: Noun,
    mode: Mode,
) -> Triple | None:
    """Render "I saw a red car". A negated French un/une becomes de: je n'ai pas vu de voiture rouge."""
    verb, tense = action
    specific = determiner is not w.A
    if (verb is w.HAVE and specific) or (verb is w.LIKE and not specific) or not _natural(noun, colour):
        return None
    phrase = _noun_phrase(determiner, noun, before, colour)
    french = phrase.french
    if mode in ("not", "n't") and not specific:
        french = "de " + french.split(" ", 1)[1]
    rest = Words(phrase.english, french, particle(phrase.korean, verb.object_particle))
    return _clause(subject, verb, rest, Words(tense=tense), mode)


def description(
    determiner: Determiner,
    before: Adjective | None,
    colour: Adjective | None,
    noun: Noun,
    plural: bool,
    predicate: Adjective,
    tense: Tense,
    mode: Mode,
) -> Triple | None:
    """Render "The small red houses are beautiful", les petites maisons rouges sont belles."""
    repeated = any(said and said.kind == predicate.kind for said in (before, colour))
    if repeated or not _natural(noun, colour, predicate):
        return None
    subject = _noun_phrase(determiner, noun, before, colour, plural=plural)
    past, negated = tense == "past", mode == "not"
    if predicate.colour:
        korean = w.korean_copula(predicate.colour, past=past, mode=mode)
    elif negated:
        korean = f"{predicate.stem}지 {'않았습니다' if past else '않습니다'}"
    else:
        korean = polite(predicate.past if past else predicate.stem)
    be = (w.BE_PAST if past else w.BE)[subject.form]
    etre = (w.ETRE_IMPERFECT if past else w.ETRE)[subject.form]
    return _triple(
        _words(subject.english, be, "not" if negated else "", predicate.english),
        _words(subject.french, _french_verb(etre, mode), predicate.french(subject.gender, plural)),
        _words(particle(subject.korean, "은/는"), korean),
    )


def meal(subject: Phrase, verb: Verb, first: Noun, second: Noun | None, when: Words, mode: Mode) -> Triple | None:
    """Render "She eats bread and cheese", elle mange du pain et du fromage; negated: pas de pain."""
    kind = w.FOODS if first in w.FOODS else w.DRINKS
    negated = mode in ("not", "n't")
    if verb is (w.DRINK if kind is w.FOODS else w.EAT) or second is first:
        return None
    if second and (second not in kind or negated):
        return None
    if (verb is w.LIKE and (when.english or when.tense == "past")) or (mode == "?" and subject in (w.I, w.WE)):
        return None
    dishes = [dish for dish in (first, second) if dish]
    articles = [_noun_phrase(w.THE, dish).french for dish in dishes]
    if verb is not w.LIKE:
        articles = [f"de {dish.french}" for dish in dishes] if negated else [f"de {dish}" for dish in articles]
    korean = particle(dishes[0].korean, "과/와") + f" {dishes[1].korean}" if second else first.korean
    rest = Words(" and ".join(dish.english for dish in dishes), " et ".join(articles), particle(korean, "을/를"))
    return _clause(subject, verb, rest, when, mode)


def journey(subject: Phrase, verb: Verb, place: Noun, by: Words, when: Words, mode: Mode) -> Triple | None:
    """Render "She went to the market by bus yesterday", elle est allée au marché en bus hier."""
    back = verb is w.COME_BACK
    if (back and when.tense != "past") or (when.tense == "future" and mode != "yes"):
        return None
    if mode == "?" and subject in (w.I, w.WE):
        return None
    where = _noun_phrase(w.THE_PLAIN, place)
    english, french = ("from", "de") if back else ("to", "à")
    rest = Words(
        _words(english, where.english, by.english),
        _words(french, where.french, by.french),
        # Korean order: means of transport before the destination, but after the origin.
        _words(where.korean + "에서", by.korean) if back else _words(by.korean, where.korean + "에"),
    )
    return _clause(subject, verb, rest, when, mode)


def counting(
    subject: Phrase, action: tuple[Verb, Tense], number: Words, adjective: Adjective | None, noun: Noun, mode: Mode
) -> Triple | None:
    """Render "He has three black cats", il a trois chats noirs, 그는 검은 고양이가 세 마리 있습니다."""
    if not _natural(noun, adjective):
        return None
    if mode == "?" and subject in (w.I, w.WE):
        return None
    verb, tense = action
    phrase = _noun_phrase(
        Determiner(number.english, number.french, number.french, number.french, ""), noun, adjective, plural=True
    )
    counted = particle(phrase.korean.removesuffix("들"), verb.object_particle)
    rest = Words(phrase.english, phrase.french, f"{counted} {number.korean} {noun.counter}")
    return _clause(subject, verb, rest, Words(tense=tense), mode)


def location(determiner: Determiner, what: Noun, position: Words, where: Noun, mode: Mode) -> Triple | None:
    """Render "The bank is near the station", la banque est près de la gare, 은행은 역 근처에 있습니다."""
    lies_on = position.english in ("on", "under")
    place = what in w.PLACES
    if what is where or place != (where in w.PLACES) or (place and (lies_on or determiner is w.MY)):
        return None
    if position.english == "on" and where.english in ("tree", "house", "bike"):
        return None
    if position.english == "under" and where.english in ("house", "bike"):
        return None
    subject = _noun_phrase(w.THE_PLAIN if place else determiner, what)
    landmark = _noun_phrase(w.THE_PLAIN, where)
    verb = "있지 않습니다" if mode == "not" else "있습니까" if mode == "?" else "있습니다"
    if mode == "?":
        english = _words("is", subject.english, position.english, landmark.english)
    else:
        english = _words(subject.english, "is not" if mode == "not" else "is", position.english, landmark.english)
    question = "est-ce que" if mode == "?" else ""
    return _triple(
        english,
        _words(question, subject.french, _french_verb("est", mode), position.french, landmark.french),
        f"{particle(subject.korean, '은/는')} {landmark.korean}{position.korean} {verb}",
        end="?" if mode == "?" else ".",
    )


def where(determiner: Determiner, adjective: Adjective | None, noun: Noun, plural: bool) -> Triple | None:
    """Render "Where is the station?", où est la gare ?"""
    place = noun in w.PLACES
    if place and (plural or adjective or determiner is not w.THE):
        return None
    if not _natural(noun, adjective):
        return None
    what = _noun_phrase(w.THE_PLAIN if place else determiner, noun, adjective, plural=plural)
    return _triple(
        _words("where", w.BE[what.form], what.english),
        _words("où", w.ETRE[what.form], what.french),
        f"{particle(what.korean, '은/는')} 어디에 있습니까",
        end="?",
    )


def wellbeing(subject: Phrase, when: Words, mode: Mode) -> Triple | None:
    """Render "I am fine", je vais bien, 저는 잘 지냅니다, and "How is she?", comment va-t-elle ?"""
    goes = w.GO.present.split("/")[subject.form]
    if mode == "yes" and subject is not w.YOU:
        return _triple(
            _words(subject.english, w.BE[subject.form], "fine", when.english),
            _words(subject.french, goes, "bien", when.french),
            _words(_topic(subject, mode), when.korean, "잘 지냅니다"),
            end="",
        )
    if mode == "yes" or subject in (w.I, w.WE) or when.english:
        return None
    if subject in w.PRONOUNS:
        french = f"comment {goes}{'-t-' if goes[-1] == 'a' else '-'}{subject.french}"
    else:
        french = f"comment {goes} {subject.french}"
    verb = "지내십니까" if _addresses_you(subject, mode) else "지냅니까"
    korean = _words(_topic(subject, mode), "어떻게", verb)
    return _triple(f"how {w.BE[subject.form]} {subject.english}", french, korean, end="?")


FOLLOWING = (
    Words(),
    Words("how are you", "comment allez-vous", "어떻게 지내십니까"),
    Words("I am fine", "je vais bien", "저는 잘 지냅니다"),
    *(
        Words(f"I am {w.english_article(job.english)}", f"je suis {job.masculine}", f"저는 {job.korean}입니다")
        for job in w.JOBS
    ),
    *(
        Words(f"my name is {name.english}", f"je me appelle {name.french}", f"제 이름은 {name.korean}입니다")
        for name in w.NAMES
    ),
)


def greeting(opening: Words, addressee: Words, following: Words) -> Triple | None:
    """Render "Hello, Paul, how are you?" Only a greeting on meeting continues with an introduction."""
    meeting = opening.english in ("hello", "good evening")
    thanks = opening.english == "thank you" and following.english == "I am fine"
    if following.english and not (meeting or thanks):
        return None
    if addressee.english and addressee.english in following.english.split():
        return None  # "Hello, Paul, my name is Paul"
    parts = [part for part in (opening, addressee, following) if part.english]
    return _triple(
        ", ".join(part.english for part in parts),
        ", ".join(part.french for part in parts),
        ", ".join(part.korean for part in parts),
        end="?" if following.english.startswith("how") else "",
    )
