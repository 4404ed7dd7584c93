"""Tokenizers: text to token ids and back. A tokenizer is trained on the training text and stored in the run folder.

kind="bpe"         joint byte-pair encoding (Sennrich et al., 2016) of both languages, by the `tokenizers` library. A
                   character that is not in the vocabulary is encoded as UTF-8 bytes, so there are no unknown tokens:
                   decode(encode(text)) == normalize_line(text), or normalize_line(text.lower()) with lowercase=true.
kind="characters"  one token per character, for language models. Whitespace and line breaks are kept:
                   decode(encode(text)) is the text in NFC.
kind="notes"       one token per pitch, for music.
kind="imported"    the tokenizer of an imported model, with `<pad>`, `<sos>` and `<eos>` renumbered to 0, 1 and 2.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate, groupby, islice
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from glassformer.errors import UserError
from glassformer.files import read_json
from glassformer.limits import VOCABULARY
from glassformer.text.lines import WORD_MARK, normalize_line
from glassformer.text.special_tokens import EOS, PAD, SOS

SPECIAL_TOKENS = ("<pad>", "<sos>", "<eos>")
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
UNK = "<unk>"  # only in kind="notes": a pitch that does not occur in the training pieces
MASK = "<mask>"  # only for masked language models
_BYTES = frozenset(BYTE_TOKENS)
_MARKS = f"{WORD_MARK}Ġ#"  # marks of word starts or continuations in SentencePiece, GPT-2 and BERT vocabularies
_EDGES = re.compile(r"^\W+|\W+$")  # punctuation around a word
_FIRST_WIDE = "\u1100"  # first code point of Hangul, kana and ideographs
UNENCODABLE = (
    "tokenizer.json",
    "The tokenizer fails on this text",
    "give other text; if no text works, copy the run folder again",
)
BLANK = re.compile(r"_{2,}|<mask>|\[mask\]", flags=re.IGNORECASE)  # how users write a masked word


class Tokenizer:
    """Encodes lines as lists of token ids, without `<sos>` and `<eos>`, which the model input adds.

    holds_training_words  whether every word of the training text is a token: byte-pair encoding stopped below the
                          requested vocabulary size because nothing was left to merge
    """

    holds_training_words = False

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        # "<eos>" in a text is five characters, not the special token.
        inner.encode_special_tokens = True
        self._inner = inner
        self.kind = _kind_of(inner)
        self.lowercase = _is_lowercase(inner)
        normalize = _normalize_lowercase if self.lowercase else normalize_line
        self._normalize = _nfc if self.kind == "characters" else normalize

    @classmethod
    def train(
        cls, lines: Iterable[str], *, vocab: int, kind: str = "bpe", lowercase: bool = False, mask: bool = False
    ) -> Tokenizer:
        """Train a tokenizer of the given kind; with `mask`, its vocabulary contains `<mask>`."""
        if kind == "imported":
            hint = "remove tokenizer.kind=imported, or start from an imported model: --from RUN"
            raise UserError("An imported tokenizer cannot be trained.", where="tokenizer.kind", hint=hint)
        if kind == "characters":
            return cls.from_characters(lines, vocab=vocab, mask=mask)
        return cls.train_bpe(lines, vocab=vocab, lowercase=lowercase, mask=mask)

    @classmethod
    def train_bpe(cls, lines: Iterable[str], *, vocab: int, lowercase: bool = False, mask: bool = False) -> Tokenizer:
        """Train byte-pair encoding with at most `vocab` tokens; fewer if the text has no more pairs to merge.

        Iterates twice over the lines. The same lines give the same tokenizer, to the byte.
        """
        if iter(lines) is lines:  # an iterator can be consumed only once
            lines = list(lines)
        normalize = _normalize_lowercase if lowercase else normalize_line
        # Rare characters are encoded as bytes: Korean and Chinese have thousands of them.
        alphabet = _frequent_characters(lines, normalize, max(64, vocab // 3))
        inner = tokenizers.Tokenizer(models.BPE(byte_fallback=True))
        # Documents the normalization for other tools that read the file.
        inner.normalizer = normalizers.Sequence(
            [
                normalizers.NFC(),
                normalizers.Replace(Regex(r"\s+"), " "),
                normalizers.Strip(),
                normalizers.Replace(WORD_MARK, "_"),
                *([normalizers.Lowercase()] if lowercase else []),
            ]
        )
        inner.pre_tokenizer = _pre_tokenizer()
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
            special_tokens=[*SPECIAL_TOKENS, *([MASK] if mask else []), *BYTE_TOKENS],
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),  # otherwise the library breaks ties arbitrarily
            show_progress=False,
        )
        inner.train_from_iterator(map(normalize, lines), trainer)
        return cls(_unregister_byte_tokens(inner))

    @classmethod
    def from_characters(cls, lines: Iterable[str], *, vocab: int, mask: bool = False) -> Tokenizer:
        """Return a tokenizer of the characters of a text and the line break, at most `vocab` of them by frequency."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(_nfc(line))
        counts["\n"] += sum(counts.values())  # always included: it precedes the first token of a text
        special = [*SPECIAL_TOKENS, *([MASK] if mask else [])]
        characters = sorted(character for character, _ in counts.most_common(vocab - len(special) - len(BYTE_TOKENS)))
        entries = {entry: number for number, entry in enumerate([*special, *BYTE_TOKENS, *characters])}
        inner = tokenizers.Tokenizer(models.BPE(vocab=entries, merges=[], byte_fallback=True))
        inner.normalizer = normalizers.NFC()
        inner.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        inner.add_special_tokens(special)
        return cls(inner)

    @classmethod
    def from_pitches(cls, pitches: Iterable[int]) -> Tokenizer:
        """Return a tokenizer with one token per pitch. It encodes pitches separated by spaces."""
        entries = [*SPECIAL_TOKENS, UNK, *map(str, sorted(set(pitches)))]
        numbers = {entry: number for number, entry in enumerate(entries)}
        inner = tokenizers.Tokenizer(models.WordLevel(vocab=numbers, unk_token=UNK))
        inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        inner.add_special_tokens(list(SPECIAL_TOKENS))
        return cls(inner)

    @property
    def newline_id(self) -> int:
        """Id of the token that ends a line of running text and precedes its first token."""
        return self._inner.get_vocab()["\n"] if self.kind == "characters" else EOS

    @property
    def unk_id(self) -> int | None:
        """Id of `<unk>`; None if the tokenizer can encode any text."""
        return self._inner.token_to_id(UNK) if self.kind == "notes" else None

    @property
    def mask_id(self) -> int | None:
        """Id of `<mask>`; None if the vocabulary has none."""
        return self._inner.token_to_id(MASK)

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        return cls(tokenizers.Tokenizer.from_str(text))

    @classmethod
    def load(cls, path: Path, *, requested_vocab: int = 0) -> Tokenizer:
        """Load the tokenizer of a run folder. `requested_vocab` is the vocabulary size in the settings of the run."""
        hint = "copy the whole run folder again"
        try:
            state = read_json(path, "The tokenizer file", hint)
        except FileNotFoundError:
            raise UserError("The run folder has no tokenizer.", where=str(path), hint=hint) from None
        tokenizer = cls(read_state(state, str(path)))
        if [tokenizer._inner.token_to_id(token) for token in SPECIAL_TOKENS] != [PAD, SOS, EOS]:
            hint = "give a run folder that `glassformer train` or `glassformer import` made"
            raise UserError("This tokenizer was not made by Glassformer.", where=str(path), hint=hint)
        if max(tokenizer._inner.get_vocab().values(), default=0) >= len(tokenizer):
            raise UserError("The tokenizer file is damaged: its ids have gaps.", where=str(path), hint=hint)
        tokenizer.holds_training_words = tokenizer.kind == "bpe" and len(tokenizer) < requested_vocab
        return tokenizer

    def to_json(self) -> str:
        return self._inner.to_str(pretty=True)

    def __len__(self) -> int:
        return self._inner.get_vocab_size()

    def encode(self, line: str) -> list[int]:
        return self._encoded(self._normalize(line)).ids

    def _encoded(self, text: str) -> tokenizers.Encoding:
        with library_errors(*UNENCODABLE):
            return self._inner.encode(text, add_special_tokens=False)

    def encode_batch(self, lines: Sequence[str]) -> list[list[int]]:
        normalized = [self._normalize(line) for line in lines]
        with library_errors(*UNENCODABLE):
            encoded = self._inner.encode_batch_fast(normalized, add_special_tokens=False)
        return [line.ids for line in encoded]

    def encode_with_masks(self, line: str) -> list[int]:
        """Encode a line with blanks (`___`, `<mask>`, `[MASK]`), each as one `<mask>` token."""
        parts = BLANK.split(self._normalize(line))
        ends = list(accumulate(len(part) + 1 for part in parts[:-1]))
        # A lone "_" is pre-tokenized as a word of its own; all of its tokens are replaced by one mask.
        found = self._encoded("_".join(parts))
        words = found.word_ids if self.kind != "characters" else range(len(found.ids))
        covers = zip(words, found.offsets, strict=True)
        hidden = {word for word, (start, end) in covers if any(start < place <= end for place in ends)}
        mask, ids = self.mask_id, list[int]()
        assert mask is not None
        for word, tokens in groupby(zip(words, found.ids, strict=True), key=lambda pair: pair[0]):
            ids += [mask] if word in hidden else [token for _, token in tokens]
        return ids

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of a text without normalizing it, and the (start, end) characters of each token."""
        encoded = self._encoded(text)
        return encoded.ids, encoded.offsets

    def splits_at_spaces(self) -> bool:
        """Return whether words are encoded independently of each other, as by every tokenizer trained here."""
        ours = tokenizers.Tokenizer(models.BPE())
        ours.pre_tokenizer = _pre_tokenizer()
        return json.loads(ours.to_str())["pre_tokenizer"] == json.loads(self._inner.to_str())["pre_tokenizer"]

    def decode(self, ids: Sequence[int]) -> str:
        """Return ids as one normalized line (with kind="characters": the exact text).

        Normalized because a model may generate a line break in bytes.
        """
        return self._normalize(self._inner.decode([i for i in ids if i > EOS], skip_special_tokens=False))

    def decode_raw(self, ids: Sequence[int]) -> str:
        """Return the text of ids without normalizing its whitespace."""
        return self._inner.decode(list(ids), skip_special_tokens=False)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return tokens as strings of the vocabulary, for display: `▁stu`, `dent`, `<eos>`."""
        return [self._inner.id_to_token(i) or "" for i in ids]

    def unknown_words(self, line: str) -> dict[str, list[str]]:
        """Return the words of a line that are not in the vocabulary, each with its pieces; blanks are not words.

        Subwords can spell any word, so a word counts as unknown only if
        - one of its characters is encoded as bytes or as `<unk>`, or
        - it has three or more letters and is split into single letters, or
        - the vocabulary has every word of its training text (`holds_training_words`), but not this one.
        """
        found: dict[str, list[str]] = {}
        text = self._normalize(line) if self.mask_id is None else BLANK.sub(" ", self._normalize(line))
        for chunk in text.split():
            encoded = self._inner.encode(chunk, add_special_tokens=False)
            # Punctuation and digits are split off, so a chunk may be several words.
            rows = zip(encoded.word_ids, encoded.offsets, encoded.tokens, strict=True)
            for _, group in groupby(rows, key=lambda row: row[0]):
                parts = list(group)
                word, pieces = chunk[parts[0][1][0] : parts[-1][1][1]], [piece for _, _, piece in parts]
                if self._is_unknown(word, pieces):
                    found[_EDGES.sub("", word) or word] = [piece for piece in pieces if piece != WORD_MARK]
        return found

    def _is_unknown(self, word: str, pieces: list[str]) -> bool:
        if any(piece in _BYTES or piece == self._unk_piece for piece in pieces):
            return True
        letters = [letter for letter in word if letter.isalpha()]
        if self.kind in ("characters", "notes") or not letters:
            return False
        if self.holds_training_words:
            return len(pieces) > 1
        # A Hangul syllable or an ideograph corresponds to several letters.
        alphabetic = len(letters) >= 3 and max(letters) < _FIRST_WIDE
        return alphabetic and all(len(piece.lstrip(_MARKS)) <= 1 for piece in pieces)

    @cached_property
    def _unk_piece(self) -> str | None:
        model = json.loads(self._inner.to_str())["model"]
        if model["type"] == "Unigram":
            return None if model["unk_id"] is None else str(model["vocab"][model["unk_id"]][0])
        name: str | None = model.get("unk_token")
        return name

    @property
    def entries(self) -> int:
        """Number of words, word pieces and characters: tokens that are neither special nor bytes."""
        return sum(
            entry not in _BYTES and entry not in (*SPECIAL_TOKENS, MASK, UNK) for entry in self._inner.get_vocab()
        )


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
    """Return the ids of a vocabulary, which is a table by name or, for a Unigram model, a list."""
    return vocab.values() if isinstance(vocab, dict) else range(len(vocab))


@contextmanager
def library_errors(where: str, what: str, hint: str) -> Iterator[None]:
    """Turn errors of the `tokenizers` library into a UserError.

    The library raises plain Exception, and PanicException, a BaseException, where its Rust code panics, for example at
    a regular expression that backtracks too long.
    """
    try:
        yield
    except (UserError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise UserError(f"{what}: {error}.", where=where, hint=hint) from None


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _normalize_lowercase(line: str) -> str:
    return normalize_line(line.lower())


def _is_lowercase(inner: tokenizers.Tokenizer) -> bool:
    state = json.loads(inner.normalizer.__getstate__()) if inner.normalizer else {}
    return any(part["type"] == "Lowercase" for part in state.get("normalizers", [state]) if part)


def _kind_of(inner: tokenizers.Tokenizer) -> str:
    byte_level = isinstance(inner.decoder, decoders.ByteLevel)
    if byte_level or isinstance(inner.model, models.WordPiece | models.Unigram):
        return "imported"
    if isinstance(inner.model, models.WordLevel):
        return "notes"
    whole_lines = inner.pre_tokenizer is None and isinstance(inner.normalizer, normalizers.NFC)
    return "characters" if whole_lines else "bpe"


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=WORD_MARK, prepend_scheme="always"),
            # Punctuation and digits are separate: "Hund." shares "Hund", and numbers are copied digit by digit.
            pre_tokenizers.Split(Regex(WORD_MARK + r"?[\p{P}\p{Sc}\p{Sm}\p{Sk}\p{Nd}]"), "isolated"),
        ]
    )


def _frequent_characters(lines: Iterable[str], normalize: Callable[[str], str], most: int) -> list[str]:
    """Return the `most` most frequent characters of a text; ties are broken by code point."""
    import numpy as np  # needed to train a tokenizer, not to use one

    from glassformer.text.characters import count_code_points

    counts = np.zeros(0x110000, dtype=np.int64)
    waiting = iter(lines)
    while some := list(islice(waiting, 10_000)):
        part = count_code_points(map(normalize, some))
        counts[: len(part)] += part
    counts[ord(" ")], counts[ord(WORD_MARK)] = 0, counts.sum() + 1  # every word starts with it
    order = np.argsort(-counts, kind="stable")[:most]
    return [chr(point) for point in order.tolist() if counts[point]]


def _unregister_byte_tokens(inner: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Keep byte tokens in the vocabulary but do not match them in text: a literal "<0x41>" is six characters."""
    state = json.loads(inner.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in (*SPECIAL_TOKENS, MASK)]
    return tokenizers.Tokenizer.from_str(json.dumps(state))
