"""Classifiers of texts, images and words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.data.images.dataset import read_image
from glassformer.data.images.format import ImageFormat
from glassformer.inference.predictor import EncoderPredictor, batches, refuse_empty
from glassformer.text.lines import normalize_line
from glassformer.text.words import EncodedWords, check_token_count, encode_words, split_words

if TYPE_CHECKING:
    from glassformer.glass.image_trace import ImageTrace


@dataclass(frozen=True)
class Classification:
    """The most probable label, and the probability of every label in descending order."""

    label: str
    probabilities: dict[str, float]


class TextClassifier(EncoderPredictor):
    """A text classifier: `classifier("a fine film")` returns a label; a list of texts returns a list.

    Example:
        >>> classifier = gf.load("runs/reviews")
        >>> classifier("a fine film")
        'positive'
    """

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        if isinstance(text, str):
            return self.predict([text])[0].label
        return [answer.label for answer in self.predict(text)]

    def predict(self, texts: Sequence[str]) -> list[Classification]:
        """Classify every text."""
        rows = self.encode_batch(texts)
        return [answer for batch in batches(rows) for answer in _ranked(self.logits(batch), self.labels)]


class ImageClassifier:
    """An image classifier: `classifier("boot.png")` returns a label; a list of files returns a list.

    Example:
        >>> classifier = gf.load("runs/fashion")
        >>> classifier("boot.png")
        'ankle boot'
    """

    def __init__(self, model: Any, form: ImageFormat, labels: Sequence[str]) -> None:
        self.model, self.form, self.labels = model, form, labels

    def __call__(self, file: str | Path | Sequence[str | Path]) -> str | list[str]:
        if isinstance(file, str | Path):
            return self.predict([file])[0].label
        return [answer.label for answer in self.predict(file)]

    def predict(self, files: Sequence[str | Path]) -> list[Classification]:
        """Classify every image file."""
        answers: list[Classification] = []
        for batch in batches([self.encode(file) for file in files]):
            answers += _ranked(self._logits(torch.stack(batch)), self.labels)
        return answers

    def encode(self, file: str | Path) -> Tensor:
        """Return the pixels that the model reads for an image file, C×Y×X bytes in the size of the training images."""
        return read_image(Path(file), self.form)

    def trace(self, file: str | Path) -> ImageTrace:
        """Trace the forward pass over an image: every intermediate tensor by name."""
        from glassformer.glass.image_trace import trace_image

        return trace_image(self, file)

    @torch.inference_mode()
    def _logits(self, pixels_BCYX: Tensor) -> Tensor:
        logits_BL: Tensor = self.model(pixels_BCYX.to(next(self.model.parameters()).device))
        return logits_BL.float()


class TextTagger(EncoderPredictor):
    """A sequence tagger, for example of parts of speech.

    Example:
        >>> tagger = gf.load("runs/ewt")
        >>> tagger("dogs bark")
        [('dogs', 'NOUN'), ('bark', 'VERB')]
    """

    def __call__(self, text: str | Sequence[str]) -> list[tuple[str, str]] | list[list[tuple[str, str]]]:
        return self.predict([text])[0] if isinstance(text, str) else self.predict(text)

    def predict(self, texts: Sequence[str]) -> list[list[tuple[str, str]]]:
        """Tag the words of every text. Words are split at spaces, with punctuation at their ends split off."""
        return self.tag([_split(text) for text in texts])

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[list[tuple[str, str]]]:
        """Tag sentences that are already split into words."""
        tagged = []
        for batch in batches(list(zip(sentences, self.encode_words(sentences), strict=True))):
            choice_BS = self.logits([row.ids for _, row in batch]).argmax(dim=-1)
            for (words, row), choice_S in zip(batch, choice_BS.tolist(), strict=True):
                labels = (self.labels[choice_S[position]] for position in row.last)
                tagged.append(list(zip(words, labels, strict=True)))
        return tagged

    def encode(self, text: str) -> list[int]:
        return self.encode_words([_split(text)])[0].ids

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[EncodedWords]:
        """Return the model input of each sentence, encoded word by word as in training.

        A word is tagged at the position of its last subword.
        """
        encoded = []
        for words, row in zip(sentences, encode_words(sentences, self.tokenizer), strict=True):
            check_token_count(len(row.ids), self.max_text_tokens, " ".join(words[:8]) + " …")
            ids = self.with_special_tokens(row.ids)
            before = len(ids) - len(row.ids) - 1
            encoded.append(EncodedWords(ids, [before + position for position in row.last]))
        return encoded


def _split(text: str) -> list[str]:
    refuse_empty([text])
    return split_words(normalize_line(text))


def _ranked(logits_BL: Tensor, labels: Sequence[str]) -> Iterator[Classification]:
    """Yield the labels of every row with their probabilities, in descending order."""
    for probability_L in logits_BL.softmax(dim=-1).tolist():
        ranked = sorted(zip(labels, probability_L, strict=True), key=lambda pair: -pair[1])
        yield Classification(ranked[0][0], dict(ranked))
