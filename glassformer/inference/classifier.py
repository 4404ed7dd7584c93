"""What tells a label: of a text, of an image, of every word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.data.images.dataset import read_image
from glassformer.data.images.format import ImageFormat
from glassformer.glass.patches import PatchTrace, trace_image
from glassformer.glass.trace import Trace
from glassformer.inference.encoding import (
    chunks,
    encode_texts,
    logits_of,
    longest_text,
    read_before,
    refuse_empty,
    trace_text,
)
from glassformer.text.lines import normalize_line
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.words import EncodedWords, check_token_count, encode_words, split_words


@dataclass(frozen=True)
class Labels:
    """What a model makes of a text or an image: its label, and the probability of each, the likeliest first."""

    label: str
    probabilities: dict[str, float]


class Labeller:
    """A classifier with its tokenizer. `labeller("a fine film")` gives a label; a list of texts gives a list."""

    def __init__(self, model: Any, tokenizer: Tokenizer, labels: Sequence[str]) -> None:
        self.model, self.tokenizer, self.labels = model, tokenizer, labels

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        if isinstance(text, str):
            return self.predict([text])[0].label
        return [answer.label for answer in self.predict(text)]

    def predict(self, texts: Sequence[str]) -> list[Labels]:
        """Every text, in order."""
        rows = encode_texts(self.model, self.tokenizer, texts)
        return [answer for some in chunks(rows) for answer in _ranked(logits_of(self.model, some), self.labels)]

    def trace(self, text: str) -> Trace:
        """Trace the pass over a text that `predict` takes the label from."""
        (ids,) = encode_texts(self.model, self.tokenizer, [text])
        return trace_text(self.model, self.tokenizer, ids, self.labels)


class ImageLabeller:
    """A classifier of images. `labeller("boot.png")` gives a label; a list of files gives a list."""

    def __init__(self, model: Any, form: ImageFormat, labels: Sequence[str]) -> None:
        self.model, self.form, self.labels = model, form, labels

    def __call__(self, file: str | Path | Sequence[str | Path]) -> str | list[str]:
        if isinstance(file, str | Path):
            return self.predict([file])[0].label
        return [answer.label for answer in self.predict(file)]

    def predict(self, files: Sequence[str | Path]) -> list[Labels]:
        """Every image, in order, each brought to the form of those that the model learnt from."""
        answers: list[Labels] = []
        for some in chunks([self.pixels(file) for file in files]):
            answers += _ranked(self._logits(torch.stack(some)), self.labels)
        return answers

    def pixels(self, file: str | Path) -> Tensor:
        """What the model sees of an image, C×Y×X bytes."""
        return read_image(Path(file), self.form)

    @torch.inference_mode()
    def _logits(self, pixels_BCYX: Tensor) -> Tensor:
        logits_BL: Tensor = self.model(pixels_BCYX.to(next(self.model.parameters()).device))
        return logits_BL.float()

    def trace(self, file: str | Path) -> PatchTrace:
        """Every named tensor of the pass over an image."""
        return trace_image(self.model, self.pixels(file), self.labels)


class Tagger:
    """A tagger with its tokenizer. `tagger("dogs bark")` gives `[("dogs", "NOUN"), ("bark", "VERB")]`."""

    def __init__(self, model: Any, tokenizer: Tokenizer, labels: Sequence[str]) -> None:
        self.model, self.tokenizer, self.labels = model, tokenizer, labels

    def __call__(self, text: str | Sequence[str]) -> list[tuple[str, str]] | list[list[tuple[str, str]]]:
        return self.predict([text])[0] if isinstance(text, str) else self.predict(text)

    def predict(self, texts: Sequence[str]) -> list[list[tuple[str, str]]]:
        """Every text, in order. Words are what stands between spaces, punctuation at their ends apart."""
        return self.tag(self._words(texts))

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[list[tuple[str, str]]]:
        """The tags of words that somebody has told apart already."""
        tagged = []
        first = len(read_before(self.model))
        for some in chunks(list(zip(sentences, self._encoded(sentences), strict=True))):
            choice_BS = logits_of(self.model, [row.ids for _, row in some]).argmax(dim=-1)
            for (words, row), choice_S in zip(some, choice_BS.tolist(), strict=True):
                labels = (self.labels[choice_S[first + at]] for at in row.last)
                tagged.append(list(zip(words, labels, strict=True)))
        return tagged

    def trace(self, text: str) -> Trace:
        """Trace the pass over a text that `predict` takes the tags from, each at the last subword of its word."""
        (row,) = self._encoded(self._words([text]))
        return trace_text(self.model, self.tokenizer, row.ids, self.labels)

    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        refuse_empty(texts)
        return [split_words(normalize_line(text)) for text in texts]

    def _encoded(self, sentences: Sequence[Sequence[str]]) -> list[EncodedWords]:
        """Return the tokens of each sentence, encoded word by word as in training."""
        rows = encode_words(sentences, self.tokenizer)
        for words, row in zip(sentences, rows, strict=True):
            check_token_count(len(row.ids), longest_text(self.model), " ".join(words[:8]) + " …")
        return rows


def _ranked(logits_BL: Tensor, labels: Sequence[str]) -> Iterator[Labels]:
    """Of every row, the labels with their probabilities, the likeliest first."""
    for probability_L in logits_BL.softmax(dim=-1).tolist():
        ranked = sorted(zip(labels, probability_L, strict=True), key=lambda pair: -pair[1])
        yield Labels(ranked[0][0], dict(ranked))
