"""Prediction of masked words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from glassformer.errors import UserError
from glassformer.inference.predictor import EncoderPredictor, batches, refuse_empty
from glassformer.text.lines import WORD_MARK
from glassformer.text.tokenizer import BLANK, BYTE_TOKENS, EOS, PAD, SOS, Tokenizer
from glassformer.text.words import check_token_count


@dataclass(frozen=True)
class FilledText:
    """A text with its blanks filled, and for each blank the most probable words with their probabilities."""

    text: str
    blanks: list[dict[str, float]]


class MaskFiller(EncoderPredictor):
    """A masked language model.

    Example:
        >>> filler = gf.load("runs/bert")
        >>> filler("the cat sat on the ___.")
        'the cat sat on the mat.'
    """

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        super().__init__(model, tokenizer)
        not_words = {*BYTE_TOKENS, WORD_MARK}
        excluded = [i for i, token in enumerate(tokenizer.pieces(range(len(tokenizer)))) if token in not_words]
        self.forbidden = [PAD, SOS, EOS, *([] if tokenizer.mask_id is None else [tokenizer.mask_id]), *excluded]

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        if isinstance(text, str):
            return self.predict([text])[0].text
        return [answer.text for answer in self.predict(text)]

    def predict(self, texts: Sequence[str], *, count: int = 5) -> list[FilledText]:
        """Fill the blanks (`___`) of every text, each with one token; `count` words are reported per blank."""
        rows = [self.encode(text) for text in texts]
        for text, ids in zip(texts, rows, strict=True):
            if self.tokenizer.mask_id not in ids:
                raise UserError("There is no blank to fill.", where=text, hint="write ___ where a word is left out")
        answers = []
        for batch in batches(list(zip(texts, rows, strict=True))):
            for (text, ids), logits_SV in zip(batch, self.logits([ids for _, ids in batch]), strict=True):
                answers.append(self._fill(text, ids, logits_SV, count))
        return answers

    def encode(self, text: str) -> list[int]:
        refuse_empty([text])
        ids = self.tokenizer.encode_with_masks(text)
        check_token_count(len(ids), self.max_text_tokens, text[:80])
        return self.with_special_tokens(ids)

    def _fill(self, text: str, ids: list[int], logits_SV: Tensor, count: int) -> FilledText:
        positions = [position for position, token in enumerate(ids) if token == self.tokenizer.mask_id]
        logits_NV = logits_SV[positions]
        logits_NV[:, self.forbidden] = float("-inf")
        probability_NC, token_NC = logits_NV.softmax(dim=-1).topk(2 * count)
        blanks = zip(token_NC.tolist(), probability_NC.tolist(), strict=True)
        best = [self._top_words(tokens, probabilities, count) for tokens, probabilities in blanks]
        words = iter(best)
        return FilledText(BLANK.sub(lambda _: next(iter(next(words))), text), best)

    def _top_words(self, tokens: list[int], probabilities: list[float], count: int) -> dict[str, float]:
        """Return words with their probabilities. Tokens that are written alike count as one word."""
        words: dict[str, float] = {}
        for token, probability in zip(tokens, probabilities, strict=True):
            word = self.tokenizer.decode([token])
            words[word] = words.get(word, 0.0) + probability
        return dict(sorted(words.items(), key=lambda pair: -pair[1])[:count])
