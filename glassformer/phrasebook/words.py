"""The vocabulary of the phrasebook in English, French and Korean, and the inflection rules of each language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f"]
Tense = Literal["present", "past", "future"]
Mode = Literal["yes", "not", "n't", "?"]  # statement, negation, contracted negation, question

# ---------------------------------------------------------------- Korean: forms that depend on the final syllable

FIRST_SYLLABLE, FINALS, L, B = 0xAC00, 28, 8, 17  # 가; 27 final consonants or none; ㄹ and ㅂ among them


def final_consonant(word: str) -> int:
    """Return the index of the final consonant of the last Hangul syllable; 0 if it ends in a vowel."""
    return (ord(word[-1]) - FIRST_SYLLABLE) % FINALS


def _with_final(word: str, final: int) -> str:
    return word[:-1] + chr(ord(word[-1]) - final_consonant(word) + final)


def particle(word: str, pair: str) -> str:
    """Append the particle that the final sound requires: particle("책", "을/를") is 책을.

    The pair is "after a consonant/after a vowel". Only for 으로/로, a final ㄹ counts as a vowel: 지하철로.
    """
    after_consonant, after_vowel = pair.split("/")
    final = final_consonant(word)
    vowel_like = final == 0 or (pair == "으로/로" and final == L)
    return word + (after_vowel if vowel_like else after_consonant)


def polite(stem: str) -> str:
    """Return the 합니다 style of a stem: 먹 → 먹습니다, 보 → 봅니다, 길 → 깁니다."""
    final = final_consonant(stem)
    return _with_final(stem, B) + "니다" if final in (0, L) else stem + "습니다"


def because(past_stem: str) -> str:
    """Return the -아서/-어서 form, the past stem without its ㅆ: 넓었 → 넓어서, 컸 → 커서."""
    return _with_final(past_stem, 0) + "서"


def korean_copula(noun: str, *, past: bool, mode: Mode, honorific: bool = False) -> str:
    """Return a noun with the copula: 학생입니다, 의사였습니다, 학생이 아닙니다, 학생입니까 …"""
    if mode in ("not", "n't"):
        return f"{particle(noun, '이/가')} {'아니었습니다' if past else '아닙니다'}"
    if honorific:
        statement = noun + ("이셨습니다" if past else "이십니다")
    else:
        statement = particle(noun, "이었습니다/였습니다") if past else noun + "입니다"
    return statement[:-1] + "까" if mode == "?" else statement


# ---------------------------------------------------------------- French: agreement, elision, contraction

_VOWEL = "[aeiouéèêâàîôûœhAEIOUÉH]"  # every h of this vocabulary is mute, or (huit) never follows such a word
_ELIDING = re.compile(rf"\b([JjMm]e|[Nn]e|[Qq]ue|[Dd]e|[Cc]e|[Ll][ea]) (?={_VOWEL})")
_MY_BEFORE_VOWEL = re.compile(rf"\b([MmSs])a (?={_VOWEL})")
_CONTRACTIONS = {"à le": "au", "à les": "aux", "de le": "du", "de les": "des"}
_CONTRACTING = re.compile(r"\b(à|de) (le|les)\b(?!')")


def french_spelling(words: str) -> str:
    """Apply elision and contraction: "parce que il" → "parce qu'il", "à le" → "au", "ma assiette" → "mon assiette"."""
    words = _ELIDING.sub(lambda found: found[1][:-1] + "'", words)
    words = _MY_BEFORE_VOWEL.sub(r"\1on ", words)
    return _CONTRACTING.sub(lambda found: _CONTRACTIONS[found[0]], words)


def elides(word: str) -> bool:
    """Return whether le, la, de … lose their vowel before this word."""
    return re.match(_VOWEL, word) is not None


def french_plural(word: str) -> str:
    if word[-1] in "sxz":
        return word
    if word.endswith("eau"):
        return word + "x"
    return word[:-1] + "ux" if word.endswith("al") else word + "s"


def french_feminine(masculine: str) -> str:
    if masculine.endswith("eux"):
        return masculine[:-1] + "se"
    if masculine.endswith("er"):
        return masculine[:-2] + "ère"
    return masculine if masculine.endswith("e") else masculine + "e"


# ---------------------------------------------------------------- English: plural and article

_IRREGULAR = {"mouse": "mice", "man": "men", "woman": "women", "child": "children"}


def english_plural(word: str) -> str:
    if re.search("[^aeo]y$", word):
        return word[:-1] + "ies"
    return _IRREGULAR.get(word) or word + ("es" if re.search("(s|x|ch|sh)$", word) else "s")


def english_article(words: str) -> str:
    return ("an " if words[0] in "aeiou" else "a ") + words


# ---------------------------------------------------------------- kinds of words


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun; French has a gender, Korean a counter."""

    english: str
    french: str
    gender: Gender
    korean: str
    counter: str = "개"  # Korean counter word: 책 세 권, 고양이 세 마리

    @property
    def living(self) -> bool:
        return self.counter == "마리"


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective with its irregular forms."""

    english: str
    masculine: str
    korean: str = ""  # before a noun: 작은
    stem: str = ""  # 작
    past: str = ""  # 작았
    feminine: str = ""  # if irregular
    before_vowel: str = ""  # bel, vieil
    before: bool = False  # un petit chat, but un chat noir
    kind: str = "quality"  # two of the same kind are not combined: no "big small house"
    colour: str = ""  # 빨간색: the Korean predicate is "is a red colour"
    of_living: str = ""  # an old house is 오래된, an old dog 늙은

    def french(self, gender: Gender, plural: bool) -> str:
        """Return the form that agrees with a noun of this gender and number."""
        one = self.masculine if gender == "m" else self.feminine or french_feminine(self.masculine)
        return french_plural(one) if plural else one


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb with the forms that the patterns use."""

    english: str  # see/sees/saw
    present: str  # forms of je/il/nous/vous/ils
    participle: str
    stem: str  # Korean: 보
    past: str  # Korean: 봤
    polite_stem: str = ""  # honorific stem if irregular: 드시 for 먹
    object_particle: str = "을/를"
    negative: tuple[str, str] = ("", "")  # negated stems if not -지 않: 없, 없었
    with_etre: bool = False  # je suis allé, elle est allée


@dataclass(frozen=True, slots=True)
class Determiner:
    """An article, possessive or possessor."""

    english: str
    masculine: str
    feminine: str
    plural: str
    korean: str
    owner: str = ""  # French puts the possessor last: la voiture de Paul


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase or pronoun in three languages, with gender, number and verb form for agreement."""

    english: str
    french: str
    korean: str
    gender: Gender = "m"
    plural: bool = False
    form: int = 1  # je 0, il/elle 1, nous 2, vous 3, ils/elles 4


@dataclass(frozen=True, slots=True)
class Words:
    """An uninflected part of a sentence."""

    english: str = ""
    french: str = ""
    korean: str = ""
    tense: Tense = "present"  # the tense that an adverb of time requires


@dataclass(frozen=True, slots=True)
class Job:
    """A profession."""

    english: str
    masculine: str
    feminine: str
    korean: str

    def french(self, gender: Gender, plural: bool) -> str:
        one = self.masculine if gender == "m" else self.feminine
        return french_plural(one) if plural else one


@dataclass(frozen=True, slots=True)
class Cause:
    """The reason in a because clause, and the noun that its pronoun refers to."""

    english: str  # too tired
    french: Adjective | str  # an adjective agrees; a noun such as faim takes avoir
    korean: str  # 너무 피곤해서
    of_agent: bool  # whether "it" is the agent; otherwise the object
    negative: bool  # whether it explains why something did not happen
    only: frozenset[str] = frozenset()  # nouns that it applies to; empty for all


# ---------------------------------------------------------------- nouns


def _cells(table: str) -> list[list[str]]:
    """Return the cells of a table: rows are separated by commas, cells by slashes."""
    return [row.strip().split("/") for row in table.split(",")]


# By their Korean counter word: English, French, gender, Korean.
_NOUN_TABLE = {
    "마리": """
        animal/animal/m/동물, dog/chien/m/개, cat/chat/m/고양이, horse/cheval/m/말, rabbit/lapin/m/토끼,
        duck/canard/m/오리, bear/ours/m/곰, squirrel/écureuil/m/다람쥐, cow/vache/f/소, mouse/souris/f/쥐,
        tortoise/tortue/f/거북이, goat/chèvre/f/염소, hen/poule/f/암탉, frog/grenouille/f/개구리
    """,
    "개": """
        street/rue/f/길, road/route/f/도로, river/rivière/f/강, forest/forêt/f/숲, valley/vallée/f/골짜기,
        bridge/pont/m/다리, field/champ/m/들판, garden/jardin/m/정원, desert/désert/m/사막, food/nourriture/f/음식,
        apple/pomme/f/사과, carrot/carotte/f/당근, cake/gâteau/m/케이크, egg/œuf/m/달걀, soup/soupe/f/수프,
        meat/viande/f/고기, salad/salade/f/샐러드, bread/pain/m/빵, cheese/fromage/m/치즈, fish/poisson/m/생선,
        rice/riz/m/밥, water/eau/f/물, coffee/café/m/커피, tea/thé/m/차, milk/lait/m/우유, juice/jus/m/주스,
        stone/pierre/f/돌, branch/branche/f/나뭇가지, ball/balle/f/공, box/boîte/f/상자, hammer/marteau/m/망치,
        stick/bâton/m/막대기, window/fenêtre/f/창문, bottle/bouteille/f/병, plate/assiette/f/접시, cup/tasse/f/컵,
        glass/verre/m/유리잔, mirror/miroir/m/거울, vase/vase/m/꽃병, trophy/trophée/m/트로피, hat/chapeau/m/모자,
        lamp/lampe/f/램프, suitcase/valise/f/여행 가방, bag/sac/m/가방, drawer/tiroir/m/서랍, basket/panier/m/바구니,
        table/table/f/탁자, chair/chaise/f/의자, market/marché/m/시장, station/gare/f/역, school/école/f/학교,
        hospital/hôpital/m/병원, park/parc/m/공원, bank/banque/f/은행, library/bibliothèque/f/도서관,
        restaurant/restaurant/m/식당, museum/musée/m/박물관, beach/plage/f/해변, hotel/hôtel/m/호텔
    """,
    "권": "book/livre/m/책",
    "대": "computer/ordinateur/m/컴퓨터, guitar/guitare/f/기타, car/voiture/f/자동차, bike/vélo/m/자전거",
    "채": "house/maison/f/집",
    "그루": "tree/arbre/m/나무",
    "송이": "flower/fleur/f/꽃",
    "벌": "shirt/chemise/f/셔츠",
}
_NOUN = {
    english: Noun(english, french, "f" if gender == "f" else "m", korean, counter)
    for counter, table in _NOUN_TABLE.items()
    for english, french, gender, korean in _cells(table)
}


def nouns(names: str) -> tuple[Noun, ...]:
    """Return the nouns with these English names."""
    return tuple(_NOUN[name] for name in names.split())


ANIMALS = nouns("animal dog cat horse rabbit duck bear squirrel cow mouse tortoise goat hen frog")
CROSSED = nouns("street road river forest valley bridge field garden park desert")
EATEN = nouns("food apple carrot soup meat salad bread cheese fish cake egg")
HITTING = nouns("stone branch ball box hammer stick")
BRITTLE = nouns("window bottle plate cup glass mirror vase")
PACKED = nouns("trophy book hat computer ball box lamp guitar bottle")
CONTAINERS = nouns("suitcase car bag drawer basket")
FOODS = nouns("bread cheese meat fish soup salad rice")
DRINKS = nouns("water coffee tea milk juice")
PETS = nouns("dog cat horse rabbit duck mouse tortoise goat hen")
OBJECTS = nouns(
    "car house book hat shirt bike table chair bag box lamp ball bottle cup plate glass mirror guitar"
    " computer flower tree suitcase"
)
SMALL_THINGS = nouns("dog cat mouse rabbit squirrel frog hen ball book hat bag box bottle cup plate lamp")
LANDMARKS = nouns("table chair car tree house bike")
PLACES = nouns("market station school hospital park bank library restaurant museum beach hotel")
FITTING_A_CAR = frozenset(["trophy", "computer", "box", "lamp", "guitar"])  # it would be odd to ask this of a hat
MEAT_EATERS = frozenset(["animal", "dog", "cat", "bear", "mouse"])

# ---------------------------------------------------------------- adjectives

SMALL = Adjective("small", "petit", "작은", "작", "작았", before=True, kind="size")
BIG = Adjective("big", "grand", "큰", "크", "컸", before=True, kind="size")
OLD = Adjective(
    "old", "vieux", "오래된", past="낡았", feminine="vieille", before_vowel="vieil", before=True,
    kind="age", of_living="늙은",
)  # fmt: skip
BEAUTIFUL = Adjective(
    "beautiful", "beau", "아름다운", "아름답", "아름다웠", feminine="belle", before_vowel="bel", before=True,
    kind="beauty",
)  # fmt: skip
PRETTY = Adjective("pretty", "joli", "예쁜", "예쁘", "예뻤", before=True, kind="beauty")
HEAVY = Adjective("heavy", "lourd", "무거운", "무겁", "무거웠")
EXPENSIVE = Adjective("expensive", "cher", "비싼", "비싸", "비쌌")
CLEAN = Adjective("clean", "propre", "깨끗한", "깨끗하", "깨끗했")
DIRTY = Adjective("dirty", "sale", "더러운", "더럽", "더러웠")
COLOURS = (
    Adjective("red", "rouge", "빨간", kind="colour", colour="빨간색"),
    Adjective("white", "blanc", "하얀", feminine="blanche", kind="colour", colour="하얀색"),
    Adjective("black", "noir", "검은", kind="colour", colour="검은색"),
    Adjective("green", "vert", "초록색", kind="colour", colour="초록색"),
    Adjective("blue", "bleu", "파란", kind="colour", colour="파란색"),
    Adjective("yellow", "jaune", "노란", kind="colour", colour="노란색"),
    Adjective("grey", "gris", "회색", kind="colour", colour="회색"),
)
FUR = frozenset({"white", "black", "grey"})
BEFORE_NOUN = (SMALL, BIG, OLD, BEAUTIFUL, PRETTY)
PREDICATES = (SMALL, BIG, BEAUTIFUL, PRETTY, HEAVY, EXPENSIVE, CLEAN, DIRTY, *COLOURS)
OF_PEOPLE = (
    Adjective("good", "bon", "좋은", feminine="bonne", before=True),
    Adjective("young", "jeune", "젊은", before=True),
    Adjective("famous", "célèbre", "유명한"),
)

# ---------------------------------------------------------------- causes


def _causes(
    who: Literal["agent", "thing"], *rows: Adjective | tuple[Adjective, str], negative: bool = False, too: bool = False
) -> Iterator[Cause]:
    """Yield causes that describe the agent or the other thing. A row may list the only nouns that it applies to."""
    english, korean = ("too ", "너무 ") if too else ("", "")
    for row in rows:
        adjective, only = (row, "") if isinstance(row, Adjective) else row
        texts = english + adjective.english, adjective, korean + because(adjective.past)
        yield Cause(*texts, who == "agent", negative, frozenset(only.split()))


def _a(english: str, masculine: str, past: str, feminine: str = "") -> Adjective:
    return Adjective(english, masculine, past=past, feminine=feminine)


NERVOUS, CURIOUS = _a("nervous", "nerveux", "불안했"), _a("curious", "curieux", "호기심이 많았")
TIRED, SICK = _a("tired", "fatigué", "피곤했"), _a("sick", "malade", "아팠")
WIDE, NARROW, DEEP = (_a("wide", "large", "넓었"), _a("narrow", "étroit", "좁았"), _a("deep", "profond", "깊었"))
THIN, THICK = _a("thin", "mince", "얇았"), _a("thick", "épais", "두꺼웠", "épaisse")
LONG = _a("long", "long", "길었", "longue")
EMPTY, DRY = _a("empty", "vide", "비어 있었"), _a("dry", "sec", "건조했", "sèche")
HUNGRY = Cause("hungry", "faim", "배가 고파서", of_agent=True, negative=False)

CROSSING_CAUSES = (
    *_causes(
        "agent", TIRED, SICK, NERVOUS, _a("lazy", "paresseux", "게을렀"), _a("young", "jeune", "어렸"),
        _a("scared", "effrayé", "겁이 났"), negative=True, too=True,
    ),
    *_causes(
        "thing", (WIDE, "street road river field valley"), (DEEP, "river valley"),
        _a("dangerous", "dangereux", "위험했"), (LONG, "bridge road"),
        (_a("dark", "sombre", "어두웠"), "street road forest valley park garden"),
        (DRY, "desert field"), (NARROW, "bridge"), negative=True, too=True,
    ),
    HUNGRY,
    Cause("thirsty", "soif", "목이 말라서", of_agent=True, negative=False),
    *_causes("agent", CURIOUS, _a("brave", "courageux", "용감했")),
    *_causes(
        "thing", _a("safe", "sûr", "안전했"), (EMPTY, "street road bridge park garden field"),
        (NARROW, "street road river valley"), (_a("short", "court", "짧았"), "street bridge road"),
    ),
)  # fmt: skip
EATING_CAUSES = (
    HUNGRY,
    Cause("very hungry", "très faim", "배가 아주 고파서", of_agent=True, negative=False),
    *_causes("agent", CURIOUS, _a("greedy", "gourmand", "욕심이 많았")),
    *_causes(
        "thing", _a("delicious", "délicieux", "맛있었"),
        (_a("fresh", "frais", "신선했", "fraîche"), "food apple carrot meat salad fish egg bread cheese"),
        (_a("sweet", "sucré", "달콤했"), "apple cake carrot"),
        (_a("soft", "tendre", "부드러웠"), "bread meat cake cheese fish carrot"),
    ),
    Cause("not hungry", "ne pas faim", "배가 고프지 않아서", of_agent=True, negative=True),
    *_causes("agent", TIRED, SICK, NERVOUS, _a("sad", "triste", "슬펐"), negative=True, too=True),
    *_causes(
        "thing", (_a("salty", "salé", "짰"), "food soup meat salad bread cheese fish egg"),
        (_a("hard", "dur", "딱딱했"), "apple carrot meat bread cheese cake egg"),
        (_a("bitter", "amer", "썼"), "food soup salad carrot apple"),
        (_a("dry", "sec", "퍽퍽했", "sèche"), "meat bread cake fish"), negative=True, too=True,
    ),
)  # fmt: skip
BREAKING_CAUSES = (
    *_causes("agent", HEAVY, _a("hard", "dur", "단단했")),
    *_causes("thing", _a("fragile", "fragile", "약했"), THIN, OLD),
    *_causes("agent", _a("light", "léger", "가벼웠"), SMALL, negative=True, too=True),
    *_causes("thing", THICK, _a("solid", "solide", "튼튼했"), negative=True, too=True),
)
PACKING_CAUSES = (
    *_causes("agent", BIG, (LONG, "guitar lamp box"), (THICK, "book box computer"), negative=True, too=True),
    *_causes("thing", SMALL, NARROW, negative=True, too=True),
    *_causes("thing", _a("full", "plein", "가득 찼"), negative=True),
    *_causes("agent", SMALL, (THIN, "book computer box")),
    *_causes("thing", BIG, (DEEP, "suitcase bag drawer basket"), EMPTY, WIDE),
)

# ---------------------------------------------------------------- verbs

SEE = Verb("see/sees/saw", "vois/voit/voyons/voyez/voient", "vu", "보", "봤", negative=("보지 못하", "보지 못했"))
BUY = Verb("buy/buys/bought", "achète/achète/achetons/achetez/achètent", "acheté", "사", "샀")
SELL = Verb("sell/sells/sold", "vends/vend/vendons/vendez/vendent", "vendu", "팔", "팔았")
DRAW = Verb("draw/draws/drew", "dessine/dessine/dessinons/dessinez/dessinent", "dessiné", "그리", "그렸")
WANT = Verb("want/wants/wanted", "veux/veut/voulons/voulez/veulent", "voulu", "원하", "원했")
HAVE = Verb("have/has/had", "ai/a/avons/avez/ont", "eu", "있", "있었", object_particle="이/가", negative=("없", "없었"))
LIKE = Verb("like/likes/liked", "aime/aime/aimons/aimez/aiment", "aimé", "좋아하", "좋아했")
EAT = Verb("eat/eats/ate", "mange/mange/mangeons/mangez/mangent", "mangé", "먹", "먹었", "드시")
DRINK = Verb("drink/drinks/drank", "bois/boit/buvons/buvez/boivent", "bu", "마시", "마셨")
GO = Verb("go/goes/went", "vais/va/allons/allez/vont", "allé", "가", "갔", with_etre=True)
COME_BACK = Verb(
    "come back/comes back/came back", "reviens/revient/revenons/revenez/reviennent", "revenu", "돌아오", "돌아왔",
    with_etre=True,
)  # fmt: skip
_CROSS_FRENCH = "traverse/traverse/traversons/traversez/traversent"
CROSS = Verb("cross/crosses/crossed", _CROSS_FRENCH, "traversé", "건너", "건넜")
CROSS_LAND = Verb("cross/crosses/crossed", _CROSS_FRENCH, "traversé", "가로지르", "가로질렀")
CROSSED_OVER = frozenset(["street", "road", "river", "bridge"])  # 건너다; the others take 가로지르다
BREAK = Verb(
    "break/breaks/broke", "casse/casse/cassons/cassez/cassent", "cassé", "깨뜨리", "깨뜨렸",
    negative=("깨뜨리지 못하", "깨뜨리지 못했"),
)  # fmt: skip
FIT = Verb("fit/fits/fitted", "rentre/rentre/rentrons/rentrez/rentrent", "rentré", "들어가", "들어갔", with_etre=True)
GO_FUTURE = ("irai", "ira", "irons", "irez", "iront")
AVOIR = HAVE.present.split("/")
ETRE = ("suis", "est", "sommes", "êtes", "sont")
ETRE_IMPERFECT = ("étais", "était", "étions", "étiez", "étaient")
AVOIR_IMPERFECT = ("avais", "avait", "avions", "aviez", "avaient")
BE = ("am", "is", "are", "are", "are")
BE_PAST = ("was", "was", "were", "were", "were")

# ---------------------------------------------------------------- people, determiners, adverbs

# English "you" is the polite vous to one man, and "they" are men.
I = Phrase("I", "je", "저", form=0)  # noqa: E741
YOU = Phrase("you", "vous", "당신", form=3)
HE, SHE = Phrase("he", "il", "그"), Phrase("she", "elle", "그녀", "f")
WE = Phrase("we", "nous", "우리", plural=True, form=2)
THEY = Phrase("they", "ils", "그들", plural=True, form=4)
PRONOUNS = (I, YOU, HE, SHE, WE, THEY)


def _people(table: str) -> Iterator[Phrase]:
    """Yield noun phrases of the third person: English, French, Korean, gender (with "s" for the plural)."""
    for english, french, korean, gender in _cells(table):
        plural = gender.endswith("s")
        yield Phrase(english, french, korean, "f" if gender[0] == "f" else "m", plural, form=4 if plural else 1)


NAMES = tuple(_people("Paul/Paul/폴/m, Thomas/Thomas/토마스/m, Anna/Anna/안나/f, Marie/Marie/마리/f"))
PEOPLE = (
    *PRONOUNS,
    *NAMES,
    *_people("""
        the man/le homme/그 남자/m, the old man/le vieil homme/그 노인/m, the woman/la femme/그 여자/f,
        the men/les hommes/그 남자들/ms, Paul and Thomas/Paul et Thomas/폴과 토마스/ms,
        Paul and Anna/Paul et Anna/폴과 안나/ms, Anna and Marie/Anna et Marie/안나와 마리/fs,
        the women/les femmes/그 여자들/fs, the boy/le garçon/그 소년/m, the girl/la fille/그 소녀/f,
        the girls/les filles/그 소녀들/fs, the children/les enfants/그 아이들/ms
    """),  # mixed groups are masculine
)
ADULTS = tuple(person for person in PEOPLE if person.english.split()[-1] not in ("boy", "girl", "girls", "children"))
JOBS = tuple(
    Job(*cells)
    for cells in _cells("""
        student/étudiant/étudiante/학생, teacher/professeur/professeure/교사, doctor/médecin/médecin/의사,
        nurse/infirmier/infirmière/간호사, engineer/ingénieur/ingénieure/엔지니어, singer/chanteur/chanteuse/가수,
        cook/cuisinier/cuisinière/요리사, lawyer/avocat/avocate/변호사, painter/peintre/peintre/화가,
        writer/écrivain/écrivaine/작가
    """)
)

THE = Determiner("the", "le", "la", "les", "그")
THE_PLAIN = Determiner("the", "le", "la", "les", "")  # Korean uses 그 only to distinguish one from others
A = Determiner("a", "un", "une", "des", "")
MY = Determiner("my", "mon", "ma", "mes", "제")
OWNING = (
    MY,
    Determiner("your", "votre", "votre", "vos", "당신의"),
    Determiner("his", "son", "sa", "ses", "그의"),
    Determiner("her", "son", "sa", "ses", "그녀의"),
    Determiner("our", "notre", "notre", "nos", "우리의"),
)

OWNERS = tuple(
    Determiner(f"{english}'s", "le", "la", "les", f"{korean}의", owner=french)
    for english, french, korean in [
        *((name.english, name.french, name.korean) for name in NAMES),
        *_cells("""
            my father/mon père/우리 아버지, my mother/ma mère/우리 어머니, the teacher/le professeur/그 선생님,
            the man/le homme/그 남자, the woman/la femme/그 여자, the children/les enfants/그 아이들
        """),
    ]
)


def _words(table: str, tense: Tense = "present") -> Iterator[Words]:
    return (Words(english, french, korean, tense) for english, french, korean in _cells(table))


NUMBERS = tuple(
    _words("""
        two/deux/두, three/trois/세, four/quatre/네, five/cinq/다섯, six/six/여섯, seven/sept/일곱, eight/huit/여덟,
        nine/neuf/아홉, ten/dix/열
    """)
)
TIMES = (
    Words(),
    Words(tense="past"),
    *_words("every day/tous les jours/매일, every morning/tous les matins/매일 아침, in the evening/le soir/저녁에"),
    *_words("yesterday/hier/어제, this morning/ce matin/오늘 아침에, today/aujourd'hui/오늘", "past"),
)
TOMORROW = Words("tomorrow", "demain", "내일", "future")
TRANSPORT = (
    Words(),
    *_words("by bus/en bus/버스로, by train/en train/기차로, by subway/en métro/지하철로, on foot/à pied/걸어서"),
)
# The Korean text follows the noun, with a leading space if needed.
POSITIONS = tuple(
    _words("""
        near/près de/ 근처에, far from/loin de/에서 멀리, next to/à côté de/ 옆에, behind/derrière/ 뒤에,
        in front of/devant/ 앞에, under/sous/ 아래에, on/sur/ 위에
    """)
)
OPENINGS = tuple(
    _words("""
        hello/bonjour/안녕하세요, good evening/bonsoir/좋은 저녁입니다, thank you/merci/감사합니다,
        goodbye/au revoir/안녕히 가세요
    """)
)
ADDRESSEES = (
    Words(),
    *(Words(name.english, name.french, f"{name.korean} 씨") for name in NAMES),
    *_words("my friends/mes amis/친구 여러분, doctor/docteur/의사 선생님"),
)
