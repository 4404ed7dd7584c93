"""Subwords: text to ids and back, learned from the training text, kept in the model folder.

A joint byte-pair encoding (Sennrich et al., 2016) of both languages, by the `tokenizers` library. A character that
the vocabulary lacks is spelled in UTF-8 bytes, so nothing is ever unknown, and
decode(encode(text)) == normalize_line(text) for any text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from glassformer.errors import UserError
from glassformer.text.corpus import normalize_line

PAD, SOS, EOS = 0, 1, 2
SPECIAL = ("<pad>", "<sos>", "<eos>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
WORD_MARK = "▁"


class Tokenizer:
    """Encodes a line as a list of ids, without `<sos>` and `<eos>`: those belong to the model's input and output."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        # A person may write "<eos>" in a text: it is then five characters and not the end of the sentence.
        inner.encode_special_tokens = True
        self._inner = inner

    @classmethod
    def learn(cls, lines: Iterable[str], *, vocab: int) -> Tokenizer:
        """Learns at most `vocab` entries; fewer when the text has no more pairs to merge."""
        inner = tokenizers.Tokenizer(models.BPE(byte_fallback=True))
        # What normalize_line does, for other tools that read the file.
        inner.normalizer = normalizers.Sequence(
            [
                normalizers.NFC(),
                normalizers.Replace(Regex(r"\s+"), " "),
                normalizers.Strip(),
                normalizers.Replace(WORD_MARK, "_"),
            ]
        )
        inner.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(replacement=WORD_MARK, prepend_scheme="always"),
                # Punctuation and digits stand alone: "Hund." shares "Hund", and numbers are copied digit by digit.
                pre_tokenizers.Split(Regex(WORD_MARK + r"?[\p{P}\p{Sc}\p{Sm}\p{Sk}\p{Nd}]"), "isolated"),
            ]
        )
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
            special_tokens=[*SPECIAL, *BYTES],
            # Rare characters are cheaper in bytes than as entries: Korean and Chinese have thousands.
            limit_alphabet=max(64, vocab // 3),
            show_progress=False,
        )
        inner.train_from_iterator((normalize_line(line) for line in lines), trainer)
        return cls(_without_added_bytes(inner))

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        return cls(tokenizers.Tokenizer.from_str(text))

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(
                "The model folder has no tokenizer.", where=str(path), fix="copy the whole folder again"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"The tokenizer cannot be read: {error}.", where=str(path), fix="copy the folder again"
            ) from None
        try:
            tokenizer = cls.from_json(text)
        except Exception as error:  # the library raises plain Exception
            raise UserError(
                f"The tokenizer file is damaged: {error}.", where=str(path), fix="copy the folder again"
            ) from None
        if [tokenizer._inner.token_to_id(token) for token in SPECIAL] != [PAD, SOS, EOS]:
            raise UserError(
                "This tokenizer was not made by Glassformer.",
                where=str(path),
                fix="give a folder that it trained",
            )
        return tokenizer

    def to_json(self) -> str:
        return self._inner.to_str(pretty=True)

    def __len__(self) -> int:
        return self._inner.get_vocab_size()

    def encode(self, line: str) -> list[int]:
        return self._inner.encode(normalize_line(line), add_special_tokens=False).ids

    def encode_batch(self, lines: Sequence[str]) -> list[list[int]]:
        encoded = self._inner.encode_batch_fast([normalize_line(line) for line in lines], add_special_tokens=False)
        return [line.ids for line in encoded]

    def decode(self, ids: Sequence[int]) -> str:
        """One line of text, whatever the ids: a model may spell a line break in bytes."""
        return normalize_line(self._inner.decode([i for i in ids if i > EOS], skip_special_tokens=False))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The entries as they are in the vocabulary, for looking at: `▁stu`, `dent`, `<eos>`."""
        return [self._inner.id_to_token(i) or "" for i in ids]


def _without_added_bytes(inner: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Byte entries stay in the vocabulary but are not matched in text: a literal "<0x41>" is six characters."""
    state = json.loads(inner.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in SPECIAL]
    return tokenizers.Tokenizer.from_str(json.dumps(state))
