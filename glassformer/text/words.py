"""Alignment of words and subword tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from glassformer.errors import Message, UserError
from glassformer.text.lines import WORD_MARK
from glassformer.text.tokenizer import BYTE_TOKENS, Tokenizer

CLITICS = re.compile(r"(?i)(.+?)(n['’]t|['’](?:s|m|d|re|ve|ll))")
ASCII = {piece: chr(byte) for byte, piece in enumerate(BYTE_TOKENS[:128])}  # byte token → character


class EncodedWords(NamedTuple):
    """The token ids of a sentence, and the index of each word's last token."""

    ids: list[int]
    last: list[int]


def encode_words(sentences: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[EncodedWords]:
    """Encode every word independently of its neighbours. Each distinct word is encoded once."""
    distinct = list(dict.fromkeys(word for sentence in sentences for word in sentence))
    known = dict(zip(distinct, tokenizer.encode_batch(distinct), strict=True))
    encoded = []
    for sentence in sentences:
        parts = [known[word] for word in sentence]
        ends = accumulate(map(len, parts))
        encoded.append(EncodedWords([i for part in parts for i in part], [end - 1 for end in ends]))
    return encoded


def check_token_count(tokens: int, most: int | None, where: str) -> None:
    """Raise a UserError if a sentence has more tokens than the model's maximum length."""
    if most is not None and tokens > most:
        raise UserError(
            Message(
                "The sentence has {n} tokens; the model accepts at most {most}.", n=f"{tokens:,}", most=f"{most:,}"
            ),
            where=where,
            hint=Message("split the sentence, or train with model.max_positions={n} or more", n=tokens),
        )


def split_words(text: str) -> list[str]:
    """Split text into words as treebanks do: punctuation at word ends and English clitics (do|n't, it|'s) apart."""
    words: list[str] = []
    for part in text.split():
        found = re.fullmatch(r"(\W*)(.*?)(\W*)", part, flags=re.DOTALL)
        assert found is not None
        before, word, after = found.groups()
        clitic = CLITICS.fullmatch(word)
        words += [*before, *(clitic.groups() if clitic else [word] if word else []), *after]
    return words


class WordSpan(NamedTuple):
    """A word and the indices of its first and last token."""

    text: str
    first: int
    last: int


def word_spans(ids: Sequence[int], tokenizer: Tokenizer) -> list[WordSpan]:
    """Group tokens into words. A punctuation mark, which has its own token, is a word of its own."""
    begins = list[int]()
    alone = True
    for at, piece in enumerate(tokenizer.pieces(ids)):
        bare = ASCII.get(piece, piece.removeprefix(WORD_MARK))
        punctuation = bool(bare) and bare not in BYTE_TOKENS and not any(map(str.isalnum, bare))
        if alone or punctuation or piece.startswith(WORD_MARK):
            begins.append(at)
        alone = punctuation
    ends = [*begins[1:], len(ids)]
    return [WordSpan(tokenizer.decode(ids[a:b]), a, b - 1) for a, b in zip(begins, ends, strict=True) if b > a]
