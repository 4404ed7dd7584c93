"""The embedded corpus: its grammar, its splits, and that "it" is resolved in French and Korean."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from glassformer.errors import UserError
from glassformer.phrasebook import sentences as sentences
from glassformer.phrasebook import words as words
from glassformer.phrasebook.corpus import CLASSICS, LANGUAGES, TEMPLATES, Phrasebook, Triple, phrasebook

pytestmark = pytest.mark.slow


@cache
def made(size: int = 24_000, seed: int = 1) -> Phrasebook:
    return phrasebook(size=size, seed=seed)


@pytest.fixture(scope="module")
def book() -> Phrasebook:
    return made()


@pytest.fixture(scope="module")
def everything(book: Phrasebook) -> list[Triple]:
    return [*book.train, *book.valid, *book.test]


def split_words(text: str) -> list[str]:
    """Split into words and punctuation; a possessive 's and an elided l' are separate words."""
    return re.findall(r"'s\b|\w+n't|[^\W_]+'(?!s\b)|[\w-]+|[^\w\s]", text)


def rendered(pattern: str, *names: str, plural: bool = False, early: bool = False) -> Triple:
    """Render the pronoun sentence with this agent, object and cause, in the mode that the cause requires."""
    template = next(template for template in TEMPLATES if template.render.__name__ == pattern)
    entries = [
        next(entry for entry in table if entry.english == name)
        for table, name in zip(template.tables, names, strict=False)
    ]
    mode = "n't" if entries[2].negative else "yes"
    triple = template.render(*entries, sentences.Agent(words.THE, plural), mode, early)
    assert triple is not None
    return triple


# ---------------------------------------------------------------- the whole


def test_default_sizes(book: Phrasebook, everything: list[Triple]) -> None:
    assert [len(book.train), len(book.valid), len(book.test)] == [22_500, 500, 1000]
    assert len({triple.english for triple in everything}) == 24_000


def test_french_and_korean_are_functions_of_english() -> None:
    translations: dict[str, tuple[str, str]] = {}
    for book in (made(), made(seed=2)):  # another draw of the same grammar must agree with the first
        for triple in (*book.train, *book.valid, *book.test):
            pair = (triple.french, triple.korean)
            assert translations.setdefault(triple.english, pair) == pair
    assert len(translations) > 30_000


def test_splits_share_no_sentence_in_any_language(book: Phrasebook) -> None:
    for language in LANGUAGES:
        train, valid, test = (
            {triple.text(language) for triple in split} for split in (book.train, book.valid, book.test)
        )
        assert not train & valid
        assert not train & test
        assert not valid & test


def test_pronoun_combinations_are_held_out_whole(book: Phrasebook) -> None:
    """No variant (a, my, plural, "did not") of a held-out agent, object and cause is in training."""

    combination: dict[str, tuple[str, ...]] = {}
    for template in (template for template in TEMPLATES if template.held_out):
        for index in range(len(template)):
            choice = template.choice(index)
            if triple := template.render(*choice):
                names = (entry.english for entry in choice[:3])
                combination[triple.english] = (template.render.__name__, *names)
    held_out = {combination[triple.english] for triple in (*book.valid, *book.test) if triple.pronoun}
    trained = {combination[triple.english] for triple in book.train if triple.pronoun}
    assert len(held_out) > 400
    assert not held_out & trained
    for place in (1, 2, 3):  # yet each agent, object and cause is well known
        seen = Counter(combination[triple.english][place] for triple in book.train if triple.pronoun)
        assert min(seen[names[place]] for names in held_out) >= 30


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("language", LANGUAGES)
def test_words_of_the_test_are_known_from_training(language: str, seed: int) -> None:
    book = made(seed=seed)
    known = {word for triple in book.train for word in split_words(triple.text(language))}
    for triple in (*book.valid, *book.test):
        assert set(split_words(triple.text(language))) <= known, triple


def test_every_english_word_is_frequent_in_training(book: Phrasebook) -> None:
    count = Counter(word.lower() for triple in book.train for word in split_words(triple.english))
    greetings = {"how", "thank", "goodbye", "see", "tomorrow"}
    rare = {word: n for word, n in count.items() if n < 30 and word not in greetings}
    assert not rare
    assert 250 <= len(count) <= 400


def test_share_of_pronoun_sentences(book: Phrasebook) -> None:
    for split in (book.train, book.test):
        assert 0.35 <= sum(triple.pronoun for triple in split) / len(split) <= 0.41
    assert all(re.search(r"[Bb]ecause (it|they) ", t.english) for t in book.train if t.pronoun)
    assert not any("because " in t.english.lower() for t in book.train if not t.pronoun)
    early = sum(t.english.startswith("Because ") for t in book.train)
    assert 0.35 <= early / sum(t.pronoun for t in book.train) <= 0.5


def test_same_seed_same_corpus_whatever_the_hash_seed() -> None:
    program = (
        "import hashlib; from glassformer.phrasebook.corpus import phrasebook;"
        "print(hashlib.sha256(repr(phrasebook(size=300)).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
    assert phrasebook(size=300) == phrasebook(size=300)
    assert phrasebook(size=300) != phrasebook(size=300, seed=2)


def test_a_small_book_and_the_pairs_of_a_split() -> None:
    small = phrasebook(size=300)
    assert len(small.train) + len(small.valid) + len(small.test) == 300
    assert ("I am a student", "저는 학생입니다") in small.pairs("train", "en", "ko")
    with pytest.raises(UserError, match="no split 'dev'"):
        small.pairs("dev", "en", "fr")


def test_invalid_sizes_are_refused_with_a_hint() -> None:
    with pytest.raises(UserError, match=r"(?s)no language 'de'.*en, fr, ko"):
        CLASSICS[0].text("de")
    with pytest.raises(UserError, match=r"(?s)100000000 sentences.*use a size from 50 to"):
        phrasebook(size=100_000_000)
    with pytest.raises(UserError, match="0 sentences"):
        phrasebook(size=0)


# ---------------------------------------------------------------- the sentences of the notes and the literature


def test_the_classics_are_in_training(book: Phrasebook) -> None:
    train = {triple.english: triple for triple in book.train}
    assert train["I am a student"] == Triple("I am a student", "Je suis étudiant", "저는 학생입니다", False)
    assert train["I am fine"] == Triple("I am fine", "Je vais bien", "저는 잘 지냅니다", False)
    assert train["How are you?"].french == "Comment allez-vous ?"


@pytest.mark.parametrize(
    ("english", "french", "korean"),
    [
        (
            "The animal didn't cross the street because it was too tired.",
            "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
            "그 동물은 너무 피곤해서 길을 건너지 않았습니다.",
        ),
        (
            "The animal didn't cross the street because it was too wide.",
            "L'animal n'a pas traversé la rue parce qu'elle était trop large.",
            "길이 너무 넓어서 그 동물은 길을 건너지 않았습니다.",
        ),
        (
            "A dog ate the food because it was hungry.",
            "Un chien a mangé la nourriture parce qu'il avait faim.",
            "개 한 마리가 배가 고파서 음식을 먹었습니다.",
        ),
        (
            "A dog ate the food because it was delicious.",
            "Un chien a mangé la nourriture parce qu'elle était délicieuse.",
            "음식이 맛있어서 개 한 마리가 음식을 먹었습니다.",
        ),
        (
            "The trophy doesn't fit in the suitcase because it is too big.",
            "Le trophée ne rentre pas dans la valise parce qu'il est trop grand.",
            "그 트로피는 너무 커서 여행 가방에 들어가지 않습니다.",
        ),
        (
            "The trophy doesn't fit in the suitcase because it is too small.",
            "Le trophée ne rentre pas dans la valise parce qu'elle est trop petite.",
            "여행 가방이 너무 작아서 그 트로피는 여행 가방에 들어가지 않습니다.",
        ),
    ],
)
def test_the_literature_is_in_the_test_split(english: str, french: str, korean: str) -> None:
    for book in (made(), made(300, 5)):
        assert Triple(english, french, korean, True) in book.test


def test_the_classics_agree_with_the_grammar() -> None:
    assert sentences.profession(words.I, words.JOBS[0], None, "present", "yes") == CLASSICS[0]
    assert sentences.wellbeing(words.I, words.Words(), "yes") == CLASSICS[1]
    assert sentences.wellbeing(words.YOU, words.Words(), "?") == CLASSICS[2]


# ---------------------------------------------------------------- agreement


@pytest.mark.parametrize(
    ("pattern", "names", "plural", "french"),
    [
        ("crossing", ("cow", "bridge", "too tired"), False, "parce qu'elle était trop fatiguée."),
        ("crossing", ("cow", "bridge", "too long"), False, "parce qu'il était trop long."),
        ("crossing", ("horse", "forest", "too lazy"), True, "parce qu'ils étaient trop paresseux."),
        ("crossing", ("mouse", "field", "curious"), True, "parce qu'elles étaient curieuses."),
        ("crossing", ("bear", "river", "too deep"), True, "parce qu'elle était trop profonde."),
        ("eating", ("hen", "cake", "not hungry"), False, "parce qu'elle n'avait pas faim."),
        ("eating", ("rabbit", "carrot", "fresh"), False, "parce qu'elle était fraîche."),
        ("eating", ("dog", "meat", "too dry"), False, "parce qu'elle était trop sèche."),
        ("breaking", ("hammer", "plate", "old"), False, "parce qu'elle était vieille."),
        ("breaking", ("stone", "vase", "too thick"), False, "parce qu'il était trop épais."),
        ("breaking", ("ball", "mirror", "too light"), True, "parce qu'elles étaient trop légères."),
        ("packing", ("guitar", "drawer", "full"), False, "parce qu'il est plein."),
        ("packing", ("hat", "suitcase", "small"), True, "parce qu'ils sont petits."),
    ],
)
def test_the_french_pronoun_and_adjective_agree_with_the_noun_meant(
    pattern: str, names: tuple[str, ...], plural: bool, french: str
) -> None:
    assert rendered(pattern, *names, plural=plural).french.endswith(french)


def test_the_antecedent_may_follow_the_pronoun() -> None:
    tired, wide = (rendered("crossing", "animal", "street", cause, early=True) for cause in ("too tired", "too wide"))
    assert tired.english == "Because it was too tired, the animal didn't cross the street."
    assert tired.french == "Comme il était trop fatigué, l'animal n'a pas traversé la rue."
    assert wide.french == "Comme elle était trop large, l'animal n'a pas traversé la rue."
    assert wide.korean == rendered("crossing", "animal", "street", "too wide").korean
    assert (wide.meant, wide.other) == ("street", "animal")


def test_korean_names_the_noun_meant() -> None:
    stone_light = rendered("breaking", "stone", "window", "too light")
    window_solid = rendered("breaking", "stone", "window", "too solid")
    assert stone_light.korean == "그 돌이 너무 가벼워서 창문을 깨뜨리지 못했습니다."
    assert window_solid.korean == "창문이 너무 튼튼해서 그 돌이 창문을 깨뜨리지 못했습니다."


@pytest.mark.parametrize(
    ("triple", "french", "korean"),
    [
        (
            sentences.profession(words.SHE, words.JOBS[0], None, "present", "yes"),
            "Elle est étudiante",
            "그녀는 학생입니다",
        ),
        (
            sentences.journey(words.SHE, words.GO, words.PLACES[0], words.TRANSPORT[0], words.TIMES[1], "yes"),
            "Elle est allée au marché.",
            "그녀는 시장에 갔습니다.",
        ),
        (
            sentences.meal(words.YOU, words.LIKE, words.DRINKS[1], None, words.TIMES[0], "?"),
            "Est-ce que vous aimez le café ?",
            "커피를 좋아하십니까?",
        ),
        (
            sentences.meal(words.HE, words.DRINK, words.DRINKS[0], None, words.TIMES[0], "not"),
            "Il ne boit pas d'eau.",
            "그는 물을 마시지 않습니다.",
        ),
        (
            sentences.counting(
                words.HE, (words.HAVE, "present"), words.NUMBERS[1], words.COLOURS[2], words.PETS[1], "yes"
            ),
            "Il a trois chats noirs.",
            "그는 검은 고양이가 세 마리 있습니다.",
        ),
        (
            sentences.thing(words.I, (words.SEE, "present"), words.A, words.OLD, None, words.nouns("tree")[0], "yes"),
            "Je vois un vieil arbre.",
            "저는 오래된 나무를 봅니다.",
        ),
        (
            sentences.description(
                words.THE,
                words.SMALL,
                words.COLOURS[0],
                words.nouns("house")[0],
                True,
                words.BEAUTIFUL,
                "present",
                "yes",
            ),
            "Les petites maisons rouges sont belles.",
            "그 작은 빨간 집들은 아름답습니다.",
        ),
        (
            sentences.where(words.MY, None, words.nouns("plate")[0], False),
            "Où est mon assiette ?",
            "제 접시는 어디에 있습니까?",
        ),
    ],
)
def test_whole_sentences(triple: Triple | None, french: str, korean: str) -> None:
    assert triple is not None
    assert (triple.french, triple.korean) == (french, korean)


def test_no_french_word_lacks_its_elision_or_contraction(everything: list[Triple]) -> None:
    vowel = "[aeiouéèêàâîôûœ]"
    unelided = re.compile(rf"\b(je|ne|de|le|la|ma|sa|que|parce que) ({vowel}|hom|hôt|hôp)", re.IGNORECASE)
    uncontracted = re.compile(r"\b(à|de) les?\b(?! soir)")
    for triple in everything:
        assert not unelided.search(triple.french), triple.french
        assert not uncontracted.search(triple.french), triple.french


# ---------------------------------------------------------------- small grammar


@pytest.mark.parametrize(
    ("word", "pair", "expected"),
    [
        ("책", "은/는", "책은"),
        ("사과", "은/는", "사과는"),
        ("물", "이/가", "물이"),
        ("커피", "이/가", "커피가"),
        ("암탉", "을/를", "암탉을"),
        ("개", "을/를", "개를"),
        ("빵", "과/와", "빵과"),
        ("치즈", "과/와", "치즈와"),
        ("버스", "으로/로", "버스로"),
        ("지하철", "으로/로", "지하철로"),
        ("숟가락", "으로/로", "숟가락으로"),
        ("말", "은/는", "말은"),
    ],
)
def test_korean_particles(word: str, pair: str, expected: str) -> None:
    assert words.particle(word, pair) == expected


@pytest.mark.parametrize(
    ("stem", "expected"), [("먹", "먹습니다"), ("보", "봅니다"), ("팔", "팝니다"), ("없", "없습니다")]
)
def test_korean_polite_style(stem: str, expected: str) -> None:
    assert words.polite(stem) == expected


def test_korean_reason_from_the_past_stem() -> None:
    assert [words.because(past) for past in ("넓었", "컸", "피곤했", "짰")] == [
        "넓어서",
        "커서",
        "피곤해서",
        "짜서",
    ]


@pytest.mark.parametrize(
    ("loose", "spelt"),
    [
        ("parce que elle ne est pas", "parce qu'elle n'est pas"),
        ("à le marché, à la école, à les enfants", "au marché, à l'école, aux enfants"),
        ("le chat de le homme et de les enfants", "le chat de l'homme et des enfants"),
        ("près de le parc", "près du parc"),
        ("ma assiette, ma tasse", "mon assiette, ma tasse"),
        ("de la eau", "de l'eau"),
    ],
)
def test_french_elision_and_contraction(loose: str, spelt: str) -> None:
    assert words.french_spelling(loose) == spelt
