"""What gives vectors: one to a text, or one to every word in its context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.glass.contexts import InContext
from glassformer.glass.trace import Trace, trace_alone
from glassformer.inference.encoding import chunks, encode_texts, logits_of, refuse_empty, trace_text
from glassformer.text.tokenizer import EOS, SOS, Tokenizer
from glassformer.text.words import word_spans


class Vectorizer:
    """A model that gives a text one vector of length 1: like texts have vectors that point the same way."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    def __call__(self, text: str | Sequence[str]) -> list[float] | list[list[float]]:
        return self.predict([text])[0] if isinstance(text, str) else self.predict(text)

    def predict(self, texts: Sequence[str]) -> list[list[float]]:
        """Every text, in order; of a very long one what the model sees."""
        rows = encode_texts(self.model, self.tokenizer, texts)
        return [vector for some in chunks(rows) for vector in logits_of(self.model, some).tolist()]

    def trace(self, text: str) -> Trace:
        """Trace the pass over a text that `predict` takes the vector from."""
        (ids,) = encode_texts(self.model, self.tokenizer, [text])
        return trace_text(self.model, self.tokenizer, ids)


class WordVectors:
    """A language model in two directions. `vectors("the bank of the river")` gives each word a vector, W×2D."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    def __call__(self, text: str) -> Tensor:
        return self.in_context(text).mean()

    def trace(self, text: str) -> Trace:
        """Everything that the model computes for a text."""
        refuse_empty([text])
        return trace_alone(self.model, self.tokenizer.pieces, [SOS, *self.tokenizer.encode(text), EOS])

    def in_context(self, text: str) -> InContext:
        """Of every layer: from the left as it was at the last token of a word, from the right as at its first."""
        seen = self.trace(text)
        words = word_spans(seen["encoder.tokens"].tolist()[1:-1], self.tokenizer)
        first, last = (torch.tensor([1 + getattr(word, end) for word in words]) for end in ("first", "last"))
        pieces = seen["encoder.embedding"][1:-1]
        vectors = {"embedding": torch.stack([pieces[word.first : word.last + 1].mean(dim=0) for word in words])}
        for layer in range(len(self.model.forwards.layers)):
            vectors[f"layer {layer + 1} →"] = seen[f"forwards.{layer}.hidden_state"][last]
            vectors[f"layer {layer + 1} ←"] = seen[f"backwards.{layer}.hidden_state"].flip(0)[first]
        return InContext([word.text for word in words], vectors)
