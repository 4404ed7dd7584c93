"""The text of generated tokens, one token at a time. This module does not import PyTorch."""

from __future__ import annotations

import codecs

from glassformer.text.special_tokens import EOS
from glassformer.text.tokenizer import BYTE_TOKENS, Tokenizer


class TextStream:
    """Decodes tokens as they are generated; the bytes of a character are held back until it is complete.

    Args:
        after_word: whether the text so far ends with a word, so that the next one is separated by a space.
    """

    def __init__(self, tokenizer: Tokenizer, *, after_word: bool) -> None:
        self.tokenizer, self._after_word = tokenizer, after_word
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._ids, self._text = list[int](), ""  # of an imported tokenizer: the current line

    def push(self, token: int) -> str:
        """Return the text that a further token adds."""
        if self.tokenizer.kind == "imported":
            return self._push_imported(token)
        (piece,) = self.tokenizer.pieces([token])
        if token == EOS:
            self._after_word = False
            return "\n"
        if piece in BYTE_TOKENS:
            return self._utf8.decode(bytes([BYTE_TOKENS.index(piece)]))
        if self.tokenizer.kind == "characters":
            return piece
        text = piece.replace("▁", " ")
        text, self._after_word = text if self._after_word else text.removeprefix(" "), True
        return text

    def _push_imported(self, token: int) -> str:
        """Return what the decoder of an imported tokenizer adds, once characters are complete."""
        if token == EOS:
            self._ids, self._text = [], ""
            return "\n"
        self._ids.append(token)
        now, before = self.tokenizer.decode_raw(self._ids), self._text
        if now.endswith("\N{REPLACEMENT CHARACTER}"):
            return ""
        self._text = now
        if len(self._ids) > 64:  # a decoder depends on a few previous tokens at most: forget older ones
            self._ids = self._ids[-8:]
            self._text = self.tokenizer.decode_raw(self._ids)
        return now[len(before) :]
