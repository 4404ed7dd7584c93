"""Words and their subwords: which tokens a word is made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from glassformer.errors import Message, UserError
from glassformer.text.lines import WORD_MARK
from glassformer.text.tokenizer import BYTES, Tokenizer


class Words(NamedTuple):
    """A sentence as ids, and where the last one of each word stands."""

    ids: list[int]
    last: list[int]


def encode_words(sentences: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[Words]:
    """Each word by itself, whatever stands beside it; every different word is encoded once."""
    different = list(dict.fromkeys(word for sentence in sentences for word in sentence))
    known = dict(zip(different, tokenizer.encode_batch(different), strict=True))
    encoded = []
    for sentence in sentences:
        parts = [known[word] for word in sentence]
        ends = accumulate(map(len, parts))
        encoded.append(Words([i for part in parts for i in part], [end - 1 for end in ends]))
    return encoded


def refuse_long(tokens: int, most: int | None, where: str) -> None:
    if most is not None and tokens > most:
        raise UserError(
            Message("The text has {n} tokens; the model reads at most {most}.", n=f"{tokens:,}", most=f"{most:,}"),
            where=where,
            hint="split the text, or train with a larger model.max_positions",
        )


CLITICS = re.compile(r"(?i)(.+?)(n['’]t|['’](?:s|m|d|re|ve|ll))")


def split_words(text: str) -> list[str]:
    """Words as treebanks have them: punctuation at the ends of a word stands by itself, and English do|n't, it|'s."""
    words: list[str] = []
    for part in text.split():
        found = re.fullmatch(r"(\W*)(.*?)(\W*)", part, flags=re.DOTALL)
        assert found is not None
        before, word, after = found.groups()
        clitic = CLITICS.fullmatch(word)
        words += [*before, *(clitic.groups() if clitic else [word] if word else []), *after]
    return words


ASCII = {piece: chr(byte) for byte, piece in enumerate(BYTES[:128])}  # what a single byte spells


class Word(NamedTuple):
    """A word of a text, and the places of its first and last token."""

    text: str
    first: int
    last: int


def words_of(ids: Sequence[int], tokenizer: Tokenizer) -> list[Word]:
    """The words that tokens spell. Punctuation, which has tokens of its own, is no part of a word."""
    begins = list[int]()
    alone = True
    for at, piece in enumerate(tokenizer.pieces(ids)):
        bare = ASCII.get(piece, piece.removeprefix(WORD_MARK))
        punctuation = bool(bare) and bare not in BYTES and not any(map(str.isalnum, bare))
        if alone or punctuation or piece.startswith(WORD_MARK):
            begins.append(at)
        alone = punctuation
    ends = [*begins[1:], len(ids)]
    return [Word(tokenizer.decode(ids[a:b]), a, b - 1) for a, b in zip(begins, ends, strict=True) if b > a]
