"""What finds the words that were left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from glassformer.errors import UserError
from glassformer.glass.trace import Trace
from glassformer.inference.encoding import chunks, logits_of, longest_text, read_before, refuse_empty, trace_text
from glassformer.text.lines import WORD_MARK
from glassformer.text.tokenizer import BLANK, BYTE_TOKENS, EOS, PAD, SOS, Tokenizer
from glassformer.text.words import check_token_count


@dataclass(frozen=True)
class Filled:
    """A text with its blanks filled, and of each blank the likeliest pieces with their probabilities."""

    text: str
    blanks: list[dict[str, float]]


class BlankFiller:
    """A model of masked words. `filler("the cat sat on the ___.")` gives the text with its likeliest words."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer
        nothing = {*BYTE_TOKENS, WORD_MARK}
        no_words = [i for i, piece in enumerate(tokenizer.pieces(range(len(tokenizer)))) if piece in nothing]
        self.never = [PAD, SOS, EOS, *([] if tokenizer.mask_id is None else [tokenizer.mask_id]), *no_words]

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        if isinstance(text, str):
            return self.predict([text])[0].text
        return [answer.text for answer in self.predict(text)]

    def predict(self, texts: Sequence[str], *, most: int = 5) -> list[Filled]:
        """Every text, in order. A blank is `___`; each is one piece of the vocabulary."""
        rows = [self._encoded(text) for text in texts]
        for text, ids in zip(texts, rows, strict=True):
            if self.tokenizer.mask_id not in ids:
                raise UserError("There is no blank to fill.", where=text, hint="write ___ where a word is left out")
        answers = []
        for some in chunks(list(zip(texts, rows, strict=True))):
            for (text, ids), logits_SV in zip(some, logits_of(self.model, [ids for _, ids in some]), strict=True):
                answers.append(self._filled(text, ids, logits_SV[len(read_before(self.model)) :], most))
        return answers

    def trace(self, text: str) -> Trace:
        """Trace the pass over a text, with blanks or without, that `predict` takes the words from."""
        refuse_empty([text])
        return trace_text(self.model, self.tokenizer, self._encoded(text))

    def _encoded(self, text: str) -> list[int]:
        ids = self.tokenizer.encode_with_masks(text)
        check_token_count(len(ids), longest_text(self.model), text[:80])
        return ids

    def _filled(self, text: str, ids: list[int], logits_SV: Tensor, most: int) -> Filled:
        places = [place for place, token in enumerate(ids) if token == self.tokenizer.mask_id]
        logits_NV = logits_SV[places]
        logits_NV[:, self.never] = float("-inf")
        chance_NC, token_NC = logits_NV.softmax(dim=-1).topk(2 * most)
        best = [self._likeliest(*blank, most) for blank in zip(token_NC.tolist(), chance_NC.tolist(), strict=True)]
        words = iter(best)
        return Filled(BLANK.sub(lambda _: next(iter(next(words))), text), best)

    def _likeliest(self, tokens: list[int], chances: list[float], most: int) -> dict[str, float]:
        """Words with their probabilities; pieces that are written alike, within a word or at its beginning, are one."""
        words: dict[str, float] = {}
        for token, chance in zip(tokens, chances, strict=True):
            word = self.tokenizer.decode([token])
            words[word] = words.get(word, 0.0) + chance
        return dict(sorted(words.items(), key=lambda pair: -pair[1])[:most])
