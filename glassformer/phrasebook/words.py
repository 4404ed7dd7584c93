"""The vocabulary of the phrasebook in English, French and Korean, and the inflection rules of each language."""

from __future__ import annotations

import re
from collections.abc import Iterable
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

    english: tuple[str, str, str]  # see, sees, saw
    present: tuple[str, str, str, str, str]  # je, il, nous, vous, ils
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

_NOUNS = (
    Noun("animal", "animal", "m", "동물", "마리"),
    Noun("dog", "chien", "m", "개", "마리"),
    Noun("cat", "chat", "m", "고양이", "마리"),
    Noun("horse", "cheval", "m", "말", "마리"),
    Noun("rabbit", "lapin", "m", "토끼", "마리"),
    Noun("duck", "canard", "m", "오리", "마리"),
    Noun("bear", "ours", "m", "곰", "마리"),
    Noun("squirrel", "écureuil", "m", "다람쥐", "마리"),
    Noun("cow", "vache", "f", "소", "마리"),
    Noun("mouse", "souris", "f", "쥐", "마리"),
    Noun("tortoise", "tortue", "f", "거북이", "마리"),
    Noun("goat", "chèvre", "f", "염소", "마리"),
    Noun("hen", "poule", "f", "암탉", "마리"),
    Noun("frog", "grenouille", "f", "개구리", "마리"),
    Noun("street", "rue", "f", "길"),
    Noun("road", "route", "f", "도로"),
    Noun("river", "rivière", "f", "강"),
    Noun("forest", "forêt", "f", "숲"),
    Noun("valley", "vallée", "f", "골짜기"),
    Noun("bridge", "pont", "m", "다리"),
    Noun("field", "champ", "m", "들판"),
    Noun("garden", "jardin", "m", "정원"),
    Noun("desert", "désert", "m", "사막"),
    Noun("food", "nourriture", "f", "음식"),
    Noun("apple", "pomme", "f", "사과"),
    Noun("carrot", "carotte", "f", "당근"),
    Noun("cake", "gâteau", "m", "케이크"),
    Noun("egg", "œuf", "m", "달걀"),
    Noun("soup", "soupe", "f", "수프"),
    Noun("meat", "viande", "f", "고기"),
    Noun("salad", "salade", "f", "샐러드"),
    Noun("bread", "pain", "m", "빵"),
    Noun("cheese", "fromage", "m", "치즈"),
    Noun("fish", "poisson", "m", "생선"),
    Noun("rice", "riz", "m", "밥"),
    Noun("water", "eau", "f", "물"),
    Noun("coffee", "café", "m", "커피"),
    Noun("tea", "thé", "m", "차"),
    Noun("milk", "lait", "m", "우유"),
    Noun("juice", "jus", "m", "주스"),
    Noun("stone", "pierre", "f", "돌"),
    Noun("branch", "branche", "f", "나뭇가지"),
    Noun("ball", "balle", "f", "공"),
    Noun("box", "boîte", "f", "상자"),
    Noun("hammer", "marteau", "m", "망치"),
    Noun("stick", "bâton", "m", "막대기"),
    Noun("window", "fenêtre", "f", "창문"),
    Noun("bottle", "bouteille", "f", "병"),
    Noun("plate", "assiette", "f", "접시"),
    Noun("cup", "tasse", "f", "컵"),
    Noun("glass", "verre", "m", "유리잔"),
    Noun("mirror", "miroir", "m", "거울"),
    Noun("vase", "vase", "m", "꽃병"),
    Noun("trophy", "trophée", "m", "트로피"),
    Noun("book", "livre", "m", "책", "권"),
    Noun("hat", "chapeau", "m", "모자"),
    Noun("computer", "ordinateur", "m", "컴퓨터", "대"),
    Noun("lamp", "lampe", "f", "램프"),
    Noun("guitar", "guitare", "f", "기타", "대"),
    Noun("suitcase", "valise", "f", "여행 가방"),
    Noun("car", "voiture", "f", "자동차", "대"),
    Noun("bag", "sac", "m", "가방"),
    Noun("drawer", "tiroir", "m", "서랍"),
    Noun("basket", "panier", "m", "바구니"),
    Noun("house", "maison", "f", "집", "채"),
    Noun("tree", "arbre", "m", "나무", "그루"),
    Noun("flower", "fleur", "f", "꽃", "송이"),
    Noun("shirt", "chemise", "f", "셔츠", "벌"),
    Noun("bike", "vélo", "m", "자전거", "대"),
    Noun("table", "table", "f", "탁자"),
    Noun("chair", "chaise", "f", "의자"),
    Noun("market", "marché", "m", "시장"),
    Noun("station", "gare", "f", "역"),
    Noun("school", "école", "f", "학교"),
    Noun("hospital", "hôpital", "m", "병원"),
    Noun("park", "parc", "m", "공원"),
    Noun("bank", "banque", "f", "은행"),
    Noun("library", "bibliothèque", "f", "도서관"),
    Noun("restaurant", "restaurant", "m", "식당"),
    Noun("museum", "musée", "m", "박물관"),
    Noun("beach", "plage", "f", "해변"),
    Noun("hotel", "hôtel", "m", "호텔"),
)
_NOUN = {noun.english: noun for noun in _NOUNS}


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


def _causes(rows: Iterable[tuple[Adjective, str]], *, agent: bool, negative: bool, too: bool) -> tuple[Cause, ...]:
    english, korean = ("too ", "너무 ") if too else ("", "")
    return tuple(
        Cause(
            english + adjective.english,
            adjective,
            korean + because(adjective.past),
            agent,
            negative,
            frozenset(only.split()),
        )
        for adjective, only in rows
    )


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
        [
            (TIRED, ""), (SICK, ""), (NERVOUS, ""), (_a("lazy", "paresseux", "게을렀"), ""),
            (_a("young", "jeune", "어렸"), ""), (_a("scared", "effrayé", "겁이 났"), ""),
        ],
        agent=True, negative=True, too=True,
    ),
    *_causes(
        [
            (WIDE, "street road river field valley"), (DEEP, "river valley"),
            (_a("dangerous", "dangereux", "위험했"), ""), (LONG, "bridge road"),
            (_a("dark", "sombre", "어두웠"), "street road forest valley park garden"), (DRY, "desert field"),
            (NARROW, "bridge"),
        ],
        agent=False, negative=True, too=True,
    ),
    HUNGRY,
    Cause("thirsty", "soif", "목이 말라서", of_agent=True, negative=False),
    *_causes(
        [(CURIOUS, ""), (_a("brave", "courageux", "용감했"), "")],
        agent=True, negative=False, too=False,
    ),
    *_causes(
        [
            (_a("safe", "sûr", "안전했"), ""), (EMPTY, "street road bridge park garden field"),
            (NARROW, "street road river valley"), (_a("short", "court", "짧았"), "street bridge road"),
        ],
        agent=False, negative=False, too=False,
    ),
)  # fmt: skip
EATING_CAUSES = (
    HUNGRY,
    Cause("very hungry", "très faim", "배가 아주 고파서", of_agent=True, negative=False),
    *_causes(
        [(CURIOUS, ""), (_a("greedy", "gourmand", "욕심이 많았"), "")],
        agent=True, negative=False, too=False,
    ),
    *_causes(
        [
            (_a("delicious", "délicieux", "맛있었"), ""),
            (_a("fresh", "frais", "신선했", "fraîche"), "food apple carrot meat salad fish egg bread cheese"),
            (_a("sweet", "sucré", "달콤했"), "apple cake carrot"),
            (_a("soft", "tendre", "부드러웠"), "bread meat cake cheese fish carrot"),
        ],
        agent=False, negative=False, too=False,
    ),
    Cause("not hungry", "ne pas faim", "배가 고프지 않아서", of_agent=True, negative=True),
    *_causes(
        [(TIRED, ""), (SICK, ""), (NERVOUS, ""), (_a("sad", "triste", "슬펐"), "")],
        agent=True, negative=True, too=True,
    ),
    *_causes(
        [
            (_a("salty", "salé", "짰"), "food soup meat salad bread cheese fish egg"),
            (_a("hard", "dur", "딱딱했"), "apple carrot meat bread cheese cake egg"),
            (_a("bitter", "amer", "썼"), "food soup salad carrot apple"),
            (_a("dry", "sec", "퍽퍽했", "sèche"), "meat bread cake fish"),
        ],
        agent=False, negative=True, too=True,
    ),
)  # fmt: skip
BREAKING_CAUSES = (
    *_causes([(HEAVY, ""), (_a("hard", "dur", "단단했"), "")], agent=True, negative=False, too=False),
    *_causes(
        [(_a("fragile", "fragile", "약했"), ""), (THIN, ""), (OLD, "")],
        agent=False, negative=False, too=False,
    ),
    *_causes([(_a("light", "léger", "가벼웠"), ""), (SMALL, "")], agent=True, negative=True, too=True),
    *_causes([(THICK, ""), (_a("solid", "solide", "튼튼했"), "")], agent=False, negative=True, too=True),
)  # fmt: skip
PACKING_CAUSES = (
    *_causes(
        [(BIG, ""), (LONG, "guitar lamp box"), (THICK, "book box computer")],
        agent=True, negative=True, too=True,
    ),
    *_causes([(SMALL, ""), (NARROW, "")], agent=False, negative=True, too=True),
    *_causes([(_a("full", "plein", "가득 찼"), "")], agent=False, negative=True, too=False),
    *_causes([(SMALL, ""), (THIN, "book computer box")], agent=True, negative=False, too=False),
    *_causes(
        [(BIG, ""), (DEEP, "suitcase bag drawer basket"), (EMPTY, ""), (WIDE, "")],
        agent=False, negative=False, too=False,
    ),
)  # fmt: skip

# ---------------------------------------------------------------- verbs

SEE = Verb(
    ("see", "sees", "saw"), ("vois", "voit", "voyons", "voyez", "voient"), "vu", "보", "봤",
    negative=("보지 못하", "보지 못했"),
)  # fmt: skip
BUY = Verb(("buy", "buys", "bought"), ("achète", "achète", "achetons", "achetez", "achètent"), "acheté", "사", "샀")
SELL = Verb(("sell", "sells", "sold"), ("vends", "vend", "vendons", "vendez", "vendent"), "vendu", "팔", "팔았")
DRAW = Verb(
    ("draw", "draws", "drew"), ("dessine", "dessine", "dessinons", "dessinez", "dessinent"), "dessiné",
    "그리", "그렸",
)  # fmt: skip
WANT = Verb(("want", "wants", "wanted"), ("veux", "veut", "voulons", "voulez", "veulent"), "voulu", "원하", "원했")
HAVE = Verb(
    ("have", "has", "had"), ("ai", "a", "avons", "avez", "ont"), "eu", "있", "있었", object_particle="이/가",
    negative=("없", "없었"),
)  # fmt: skip
LIKE = Verb(("like", "likes", "liked"), ("aime", "aime", "aimons", "aimez", "aiment"), "aimé", "좋아하", "좋아했")
EAT = Verb(("eat", "eats", "ate"), ("mange", "mange", "mangeons", "mangez", "mangent"), "mangé", "먹", "먹었", "드시")
DRINK = Verb(("drink", "drinks", "drank"), ("bois", "boit", "buvons", "buvez", "boivent"), "bu", "마시", "마셨")
GO = Verb(("go", "goes", "went"), ("vais", "va", "allons", "allez", "vont"), "allé", "가", "갔", with_etre=True)
COME_BACK = Verb(
    ("come back", "comes back", "came back"), ("reviens", "revient", "revenons", "revenez", "reviennent"),
    "revenu", "돌아오", "돌아왔", with_etre=True,
)  # fmt: skip
_CROSS_FRENCH = ("traverse", "traverse", "traversons", "traversez", "traversent")
CROSS = Verb(("cross", "crosses", "crossed"), _CROSS_FRENCH, "traversé", "건너", "건넜")
CROSS_LAND = Verb(("cross", "crosses", "crossed"), _CROSS_FRENCH, "traversé", "가로지르", "가로질렀")
CROSSED_OVER = frozenset(["street", "road", "river", "bridge"])  # 건너다; the others take 가로지르다
BREAK = Verb(
    ("break", "breaks", "broke"), ("casse", "casse", "cassons", "cassez", "cassent"), "cassé", "깨뜨리",
    "깨뜨렸", negative=("깨뜨리지 못하", "깨뜨리지 못했"),
)  # fmt: skip
FIT = Verb(
    ("fit", "fits", "fitted"), ("rentre", "rentre", "rentrons", "rentrez", "rentrent"), "rentré", "들어가",
    "들어갔", with_etre=True,
)  # fmt: skip
GO_FUTURE = ("irai", "ira", "irons", "irez", "iront")
AVOIR = HAVE.present
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
NAMES = (
    Phrase("Paul", "Paul", "폴"),
    Phrase("Thomas", "Thomas", "토마스"),
    Phrase("Anna", "Anna", "안나", "f"),
    Phrase("Marie", "Marie", "마리", "f"),
)
PEOPLE = (
    *PRONOUNS,
    *NAMES,
    Phrase("the man", "le homme", "그 남자"),
    Phrase("the old man", "le vieil homme", "그 노인"),
    Phrase("the woman", "la femme", "그 여자", "f"),
    Phrase("the men", "les hommes", "그 남자들", plural=True, form=4),
    Phrase("Paul and Thomas", "Paul et Thomas", "폴과 토마스", plural=True, form=4),
    Phrase("Paul and Anna", "Paul et Anna", "폴과 안나", plural=True, form=4),  # mixed groups are masculine
    Phrase("Anna and Marie", "Anna et Marie", "안나와 마리", "f", plural=True, form=4),
    Phrase("the women", "les femmes", "그 여자들", "f", plural=True, form=4),
    Phrase("the boy", "le garçon", "그 소년"),
    Phrase("the girl", "la fille", "그 소녀", "f"),
    Phrase("the girls", "les filles", "그 소녀들", "f", plural=True, form=4),
    Phrase("the children", "les enfants", "그 아이들", plural=True, form=4),
)
ADULTS = tuple(person for person in PEOPLE if person.english.split()[-1] not in ("boy", "girl", "girls", "children"))
JOBS = (
    Job("student", "étudiant", "étudiante", "학생"),
    Job("teacher", "professeur", "professeure", "교사"),
    Job("doctor", "médecin", "médecin", "의사"),
    Job("nurse", "infirmier", "infirmière", "간호사"),
    Job("engineer", "ingénieur", "ingénieure", "엔지니어"),
    Job("singer", "chanteur", "chanteuse", "가수"),
    Job("cook", "cuisinier", "cuisinière", "요리사"),
    Job("lawyer", "avocat", "avocate", "변호사"),
    Job("painter", "peintre", "peintre", "화가"),
    Job("writer", "écrivain", "écrivaine", "작가"),
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


def _owner(english: str, french: str, korean: str) -> Determiner:
    return Determiner(f"{english}'s", "le", "la", "les", f"{korean}의", owner=french)


OWNERS = (
    *(_owner(name.english, name.french, name.korean) for name in NAMES),
    _owner("my father", "mon père", "우리 아버지"),
    _owner("my mother", "ma mère", "우리 어머니"),
    _owner("the teacher", "le professeur", "그 선생님"),
    _owner("the man", "le homme", "그 남자"),
    _owner("the woman", "la femme", "그 여자"),
    _owner("the children", "les enfants", "그 아이들"),
)

NUMBERS = (
    Words("two", "deux", "두"),
    Words("three", "trois", "세"),
    Words("four", "quatre", "네"),
    Words("five", "cinq", "다섯"),
    Words("six", "six", "여섯"),
    Words("seven", "sept", "일곱"),
    Words("eight", "huit", "여덟"),
    Words("nine", "neuf", "아홉"),
    Words("ten", "dix", "열"),
)
TIMES = (
    Words(),
    Words(tense="past"),
    Words("every day", "tous les jours", "매일"),
    Words("every morning", "tous les matins", "매일 아침"),
    Words("in the evening", "le soir", "저녁에"),
    Words("yesterday", "hier", "어제", "past"),
    Words("this morning", "ce matin", "오늘 아침에", "past"),
    Words("today", "aujourd'hui", "오늘", "past"),
)
TOMORROW = Words("tomorrow", "demain", "내일", "future")
TRANSPORT = (
    Words(),
    Words("by bus", "en bus", particle("버스", "으로/로")),
    Words("by train", "en train", particle("기차", "으로/로")),
    Words("by subway", "en métro", particle("지하철", "으로/로")),
    Words("on foot", "à pied", "걸어서"),
)
# The Korean text follows the noun, with a leading space if needed.
POSITIONS = (
    Words("near", "près de", " 근처에"),
    Words("far from", "loin de", "에서 멀리"),
    Words("next to", "à côté de", " 옆에"),
    Words("behind", "derrière", " 뒤에"),
    Words("in front of", "devant", " 앞에"),
    Words("under", "sous", " 아래에"),
    Words("on", "sur", " 위에"),
)
OPENINGS = (
    Words("hello", "bonjour", "안녕하세요"),
    Words("good evening", "bonsoir", "좋은 저녁입니다"),
    Words("thank you", "merci", "감사합니다"),
    Words("goodbye", "au revoir", "안녕히 가세요"),
)
ADDRESSEES = (
    Words(),
    *(Words(name.english, name.french, f"{name.korean} 씨") for name in NAMES),
    Words("my friends", "mes amis", "친구 여러분"),
    Words("doctor", "docteur", "의사 선생님"),
)
