"""Subwords: text to ids and back, learned from the training text, kept in the model folder.

A joint byte-pair encoding (Sennrich et al., 2016) of both languages, by the `tokenizers` library. A character that
the vocabulary lacks is spelled in UTF-8 bytes, so nothing is ever unknown, and
decode(encode(text)) == normalize_line(text) for any text; or normalize_line(text.lower()), if that was asked for.

For language models there are two more kinds: "characters", one entry each, where white space and line breaks stay as
they are and decode(encode(text)) is the text in NFC; and "notes", one entry a pitch, for music. The tokenizer of a
model that was made elsewhere is "imported": its entries have our numbers and names for padding, beginning and end.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate, chain, groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from glassformer.errors import UserError
from glassformer.files import read_json
from glassformer.limits import VOCABULARY
from glassformer.text.characters import occurrences
from glassformer.text.lines import WORD_MARK, normalize_line
from glassformer.text.ragged import Ragged, gather_rows
from glassformer.text.special_tokens import EOS, PAD, SOS

SPECIAL = ("<pad>", "<sos>", "<eos>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
UNKNOWN = "<unk>"  # of notes alone: a pitch that the training pieces lack
MASK = "<mask>"  # of those for masked words: what stands in a word's place
_BYTES = frozenset(BYTES)
_MARKS = f"{WORD_MARK}Ġ#"  # what begins or continues a word in the vocabularies of SentencePiece, GPT-2 and BERT
_EDGES = re.compile(r"^\W+|\W+$")  # punctuation around a word
_FIRST_WIDE = "\u1100"  # from here on: Hangul, kana, ideographs
UNENCODABLE = (
    "tokenizer.json",
    "The tokenizer fails on this text",
    "give other text; if no text works, copy the folder of the run again",
)
BLANK = re.compile(r"_{2,}|<mask>|\[mask\]", flags=re.IGNORECASE)  # as a person writes it


class Tokenizer:
    """Encodes a line as a list of ids, without `<sos>` and `<eos>`: those belong to the model's input and output.

    holds_every_word  Whether every word of the text that it was learned from is an entry: byte-pair encoding ended
                      because there was nothing left to merge, below the vocabulary size that was asked for.
    """

    holds_every_word = False

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        # A person may write "<eos>" in a text: it is then five characters and not the end of the sentence.
        inner.encode_special_tokens = True
        self._inner = inner
        self.kind = _kind_of(inner)
        self.lowercase = _lowers(inner)
        self._tidied = _composed if self.kind == "characters" else _lowered if self.lowercase else normalize_line

    @classmethod
    def of_text(
        cls, lines: Iterable[str], *, vocab: int, kind: str = "bpe", lowercase: bool = False, mask: bool = False
    ) -> Tokenizer:
        """One of subwords or of characters, as settings ask for; with an entry for masked words, if there are some."""
        if kind == "imported":
            hint = "leave it out, or begin with an imported model: --from RUN"
            raise UserError("A tokenizer from elsewhere comes with its model.", where="tokenizer.kind", hint=hint)
        if kind == "characters":
            return cls.of_characters(lines, vocab=vocab, mask=mask)
        return cls.learn(lines, vocab=vocab, lowercase=lowercase, mask=mask)

    @classmethod
    def learn(cls, lines: Iterable[str], *, vocab: int, lowercase: bool = False, mask: bool = False) -> Tokenizer:
        """Learns at most `vocab` entries; fewer when the text has no more pairs to merge.

        The lines are gone through twice. The same lines give the same tokenizer, to the byte.
        """
        if iter(lines) is lines:  # can be gone through once only
            lines = list(lines)
        tidied = _lowered if lowercase else normalize_line
        # Rare characters are cheaper in bytes than as entries: Korean and Chinese have thousands.
        alphabet = _most_frequent_characters(lines, tidied, max(64, vocab // 3))
        inner = tokenizers.Tokenizer(models.BPE(byte_fallback=True))
        # What was done to the lines, for other tools that read the file.
        inner.normalizer = normalizers.Sequence(
            [
                normalizers.NFC(),
                normalizers.Replace(Regex(r"\s+"), " "),
                normalizers.Strip(),
                normalizers.Replace(WORD_MARK, "_"),
                *([normalizers.Lowercase()] if lowercase else []),
            ]
        )
        inner.pre_tokenizer = _words_apart()
        inner.decoder = decoders.Sequence(
            [
                decoders.Replace(WORD_MARK, " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(content=" ", left=1, right=0),
            ]
        )
        trainer = trainers.BpeTrainer(
            vocab_size=vocab,
            special_tokens=[*SPECIAL, *([MASK] if mask else []), *BYTES],
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),  # left to itself, the library keeps any of those that are equally frequent
            show_progress=False,
        )
        inner.train_from_iterator(map(tidied, lines), trainer)
        return cls(_without_added_bytes(inner))

    @classmethod
    def of_characters(cls, lines: Iterable[str], *, vocab: int, mask: bool = False) -> Tokenizer:
        """The characters of a text and the line break, the most frequent where there are more than `vocab` has room."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(_composed(line))
        counts["\n"] += sum(counts.values())  # always there, as it is what a text begins after
        special = [*SPECIAL, *([MASK] if mask else [])]
        characters = sorted(character for character, _ in counts.most_common(vocab - len(special) - len(BYTES)))
        entries = {entry: number for number, entry in enumerate([*special, *BYTES, *characters])}
        inner = tokenizers.Tokenizer(models.BPE(vocab=entries, merges=[], byte_fallback=True))
        inner.normalizer = normalizers.NFC()
        inner.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        inner.add_special_tokens(special)
        return cls(inner)

    @classmethod
    def of_notes(cls, pitches: Iterable[int]) -> Tokenizer:
        """One entry a pitch; what it encodes are pitches with spaces in between."""
        entries = [*SPECIAL, UNKNOWN, *map(str, sorted(set(pitches)))]
        numbers = {entry: number for number, entry in enumerate(entries)}
        inner = tokenizers.Tokenizer(models.WordLevel(vocab=numbers, unk_token=UNKNOWN))
        inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        inner.add_special_tokens(list(SPECIAL))
        return cls(inner)

    @property
    def line_end(self) -> int:
        """What ends a line in a running text, and stands before its first token."""
        return self._inner.get_vocab()["\n"] if self.kind == "characters" else EOS

    @property
    def unknown(self) -> int | None:
        """The entry for what cannot be spelled; None where everything can."""
        return self._inner.token_to_id(UNKNOWN) if self.kind == "notes" else None

    @property
    def mask(self) -> int | None:
        """The entry that hides a word; None where there is none."""
        return self._inner.token_to_id(MASK)

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        return cls(tokenizers.Tokenizer.from_str(text))

    @classmethod
    def load(cls, path: Path, *, asked_for: int = 0) -> Tokenizer:
        """Read the tokenizer of a model folder. `asked_for` is the vocabulary size in the settings of the run."""
        try:
            state = read_json(path, "The tokenizer file", "copy the folder again")
        except FileNotFoundError:
            raise UserError(
                "The model folder has no tokenizer.", where=str(path), hint="copy the whole folder again"
            ) from None
        tokenizer = cls(read_state(state, str(path)))
        if [tokenizer._inner.token_to_id(token) for token in SPECIAL] != [PAD, SOS, EOS]:
            raise UserError(
                "This tokenizer was not made by Glassformer.",
                where=str(path),
                hint="give a folder that it trained",
            )
        tokenizer.holds_every_word = tokenizer.kind == "bpe" and len(tokenizer) < asked_for
        if any(number >= len(tokenizer) for number in tokenizer._inner.get_vocab().values()):
            raise UserError(
                "The tokenizer file is damaged: its ids have gaps.", where=str(path), hint="copy the folder again"
            )
        return tokenizer

    def to_json(self) -> str:
        return self._inner.to_str(pretty=True)

    def __len__(self) -> int:
        return self._inner.get_vocab_size()

    def encode(self, line: str) -> list[int]:
        return self._encoded(self._tidied(line)).ids

    def _encoded(self, text: str) -> tokenizers.Encoding:
        with library_errors(*UNENCODABLE):
            return self._inner.encode(text, add_special_tokens=False)

    def encode_batch(self, lines: Sequence[str]) -> list[list[int]]:
        tidied = [self._tidied(line) for line in lines]
        with library_errors(*UNENCODABLE):
            encoded = self._inner.encode_batch_fast(tidied, add_special_tokens=False)
        return [line.ids for line in encoded]

    def encode_blanks(self, line: str) -> list[int]:
        """A line in which words are left out (`___`): `<mask>` in the place of each."""
        parts = BLANK.split(self._tidied(line))
        ends = list(accumulate(len(part) + 1 for part in parts[:-1]))
        # A lone "_" stands apart from its neighbours as a word would; whatever it is made of becomes the mask.
        found = self._encoded("_".join(parts))
        words = found.word_ids if self.kind != "characters" else range(len(found.ids))
        covers = zip(words, found.offsets, strict=True)
        hidden = {word for word, (start, end) in covers if any(start < place <= end for place in ends)}
        mask, ids = self.mask, list[int]()
        assert mask is not None
        for word, tokens in groupby(zip(words, found.ids, strict=True), key=lambda pair: pair[0]):
            ids += [mask] if word in hidden else [token for _, token in tokens]
        return ids

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids of a text as it stands, and for each the characters that it was made of, from and to."""
        encoded = self._encoded(text)
        return encoded.ids, encoded.offsets

    def parts_at_spaces(self) -> bool:
        """Whether words are encoded one by one, as by every tokenizer that was learnt here."""
        ours = tokenizers.Tokenizer(models.BPE())
        ours.pre_tokenizer = _words_apart()
        return json.loads(ours.to_str())["pre_tokenizer"] == json.loads(self._inner.to_str())["pre_tokenizer"]

    def decode(self, ids: Sequence[int]) -> str:
        """One line of text, whatever the ids: a model may spell a line break in bytes. Of characters, the very text."""
        return self._tidied(self._inner.decode([i for i in ids if i > EOS], skip_special_tokens=False))

    def decode_whole(self, ids: Sequence[int]) -> str:
        """The text of ids as their decoder has it, white space and all."""
        return self._inner.decode(list(ids), skip_special_tokens=False)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The entries as they are in the vocabulary, for looking at: `▁stu`, `dent`, `<eos>`."""
        return [self._inner.id_to_token(i) or "" for i in ids]

    def unknown_words(self, line: str) -> dict[str, list[str]]:
        """Return the words of a line that the vocabulary does not hold, each with the pieces that it is read in.

        Subwords can spell any word, so a word counts as unknown only if
        - a character of it is spelled in bytes or is the unknown token, or
        - it has three or more letters and is spelled in single ones, or
        - the vocabulary holds every word of its training text (`holds_every_word`), and this one is not an entry.
        """
        found: dict[str, list[str]] = {}
        for chunk in self._tidied(line).split():
            encoded = self._inner.encode(chunk, add_special_tokens=False)
            # Punctuation and digits stand apart from the letters before them, so a chunk may be several words.
            rows = zip(encoded.word_ids, encoded.offsets, encoded.tokens, strict=True)
            for _, group in groupby(rows, key=lambda row: row[0]):
                parts = list(group)
                word, pieces = chunk[parts[0][1][0] : parts[-1][1][1]], [piece for _, _, piece in parts]
                if self._is_unknown(word, pieces):
                    found[_EDGES.sub("", word) or word] = [piece for piece in pieces if piece != WORD_MARK]
        return found

    def _is_unknown(self, word: str, pieces: list[str]) -> bool:
        if any(piece in _BYTES or piece == self._unknown_piece for piece in pieces):
            return True
        letters = [letter for letter in word if letter.isalpha()]
        if self.kind in ("characters", "notes") or not letters:
            return False
        if self.holds_every_word:
            return len(pieces) > 1
        # A syllable or an ideograph says as much as a piece of several letters.
        alphabetic = len(letters) >= 3 and max(letters) < _FIRST_WIDE
        return alphabetic and all(len(piece.lstrip(_MARKS)) <= 1 for piece in pieces)

    @cached_property
    def _unknown_piece(self) -> str | None:
        model = json.loads(self._inner.to_str())["model"]
        if model["type"] == "Unigram":
            return None if model["unk_id"] is None else str(model["vocab"][model["unk_id"]][0])
        name: str | None = model.get("unk_token")
        return name

    @property
    def entries(self) -> int:
        """The number of words, word pieces and characters: entries that are neither special nor bytes."""
        return sum(entry not in _BYTES and entry not in (*SPECIAL, MASK, UNKNOWN) for entry in self._inner.get_vocab())


def read_state(state: Any, where: str) -> tokenizers.Tokenizer:
    """Return the tokenizer of a parsed tokenizer.json; refuse one that would fill the memory when it is used.

    The library allocates an entry for every id up to the highest, and pads every text to the length that the file asks
    for.
    """
    hint = "copy the folder again, or save the tokenizer again with the package tokenizers"
    try:
        highest = max([*_ids(state["model"]["vocab"]), *(token["id"] for token in state["added_tokens"])], default=0)
        if highest >= VOCABULARY.value():
            raise VOCABULARY.exceeded(f"The vocabulary (highest id {highest:,})", where)
        if state.get("padding") or state.get("truncation"):
            state = state | {"padding": None, "truncation": None}  # never wanted: lines are encoded as they are
        with library_errors(where, "The tokenizer file is damaged", hint):
            return tokenizers.Tokenizer.from_str(json.dumps(state))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"The tokenizer file is damaged: {error!r}.", where=where, hint=hint) from None


def _ids(vocab: Any) -> Iterable[int]:
    """The ids of a vocabulary, which is a table by name, or, of a Unigram model, a list."""
    return vocab.values() if isinstance(vocab, dict) else range(len(vocab))


@contextmanager
def library_errors(where: str, what: str, hint: str) -> Iterator[None]:
    """Turn errors of the `tokenizers` library into a UserError.

    The library raises plain Exception, and PanicException, a BaseException, where its Rust code gives up: a regular
    expression that backtracks too long, for one.
    """
    try:
        yield
    except (UserError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise UserError(f"{what}: {error}.", where=where, hint=hint) from None


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _lowered(line: str) -> str:
    return normalize_line(line.lower())


def _lowers(inner: tokenizers.Tokenizer) -> bool:
    state = json.loads(inner.to_str())["normalizer"] or {}
    return any(part["type"] == "Lowercase" for part in state.get("normalizers", [state]) if part)


def _kind_of(inner: tokenizers.Tokenizer) -> str:
    byte_level = isinstance(inner.decoder, decoders.ByteLevel)
    if byte_level or isinstance(inner.model, models.WordPiece | models.Unigram):
        return "imported"
    if isinstance(inner.model, models.WordLevel):
        return "notes"
    whole_lines = inner.pre_tokenizer is None and isinstance(inner.normalizer, normalizers.NFC)
    return "characters" if whole_lines else "bpe"


class LinesEncoder:
    """Encodes normalised lines to one array, by a table of the words that came before.

    No entry of the vocabulary reaches over a space, so the ids of a line are those of its words, and most words of a
    text are not new: several times faster than `Tokenizer.encode_batch`, with the same ids.
    """

    WORDS = 300_000  # in the table at most: then it begins anew, to bound the memory

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # A tokenizer that came from elsewhere may part words otherwise: then every line is a "word".
        self._space = " " if tokenizer.parts_at_spaces() else None
        self._forget()

    def __call__(self, lines: Sequence[str]) -> Ragged:
        """The ids of all lines, one behind the other, and how many each has."""
        if not lines:
            return Ragged(self._ids[:0], self._lengths[:0])
        if len(self._numbers) > self.WORDS:
            self._forget()
        words = list(lines) if self._space is None else self._space.join(lines).split(self._space)
        numbers = np.fromiter(map(self._numbers.__getitem__, words), dtype=np.int64, count=len(words))
        self._learn_new_words()
        ids, lengths = gather_rows(self._ids, self._starts[numbers], self._lengths[numbers])
        if self._space is not None:
            words_of = np.fromiter((line.count(" ") + 1 for line in lines), dtype=np.int64, count=len(lines))
            lengths = np.add.reduceat(lengths, np.cumsum(words_of) - words_of)
        return Ragged(ids, lengths)

    def _forget(self) -> None:
        self._numbers = _Numbers()
        self._ids, self._starts, self._lengths = (np.zeros(0, dtype=np.int64) for _ in range(3))

    def _learn_new_words(self) -> None:
        if new := self._numbers.take_new():
            encoded = self._tokenizer.encode_batch(new)
            lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(new))
            ids = np.fromiter(chain.from_iterable(encoded), dtype=np.int64, count=int(lengths.sum()))
            self._starts = np.concatenate([self._starts, len(self._ids) + np.cumsum(lengths) - lengths])
            self._ids = np.concatenate([self._ids, ids])
            self._lengths = np.concatenate([self._lengths, lengths])


class _Numbers(dict[str, int]):
    """Numbers words as they are asked for."""

    def __init__(self) -> None:
        self._new: list[str] = []

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        self._new.append(word)
        return number

    def take_new(self) -> list[str]:
        new, self._new = self._new, []
        return new


def _words_apart() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=WORD_MARK, prepend_scheme="always"),
            # Punctuation and digits stand alone: "Hund." shares "Hund", and numbers are copied digit by digit.
            pre_tokenizers.Split(Regex(WORD_MARK + r"?[\p{P}\p{Sc}\p{Sm}\p{Sk}\p{Nd}]"), "isolated"),
        ]
    )


def _most_frequent_characters(lines: Iterable[str], tidied: Callable[[str], str], most: int) -> list[str]:
    """The characters of a text, or so many of them; of equally frequent ones those that come first in Unicode."""
    counts = np.zeros(0x110000, dtype=np.int64)
    waiting = iter(lines)
    while some := list(islice(waiting, 10_000)):
        part = occurrences(map(tidied, some))
        counts[: len(part)] += part
    counts[ord(" ")], counts[ord(WORD_MARK)] = 0, counts.sum() + 1  # every word begins with it
    order = np.argsort(-counts, kind="stable")[:most]
    return [chr(point) for point in order.tolist() if counts[point]]


def _without_added_bytes(inner: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Byte entries stay in the vocabulary but are not matched in text: a literal "<0x41>" is six characters."""
    state = json.loads(inner.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in (*SPECIAL, MASK)]
    return tokenizers.Tokenizer.from_str(json.dumps(state))
