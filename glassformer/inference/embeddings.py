"""Embeddings: one vector per text, or one per word in its context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.inference.predictor import EncoderPredictor, SequencePredictor, batches, refuse_empty
from glassformer.nn.probe import Recorder
from glassformer.text.tokenizer import EOS, SOS
from glassformer.text.words import word_spans

if TYPE_CHECKING:
    from glassformer.glass.word_in_context import WordComparison


class SentenceEmbedder(EncoderPredictor):
    """A model that maps a text to a unit vector; similar texts have a high cosine similarity.

    Example:
        >>> embedder = gf.load("runs/minilm")
        >>> a, b = embedder(["a cat", "a kitten"])
        >>> similarity = sum(x * y for x, y in zip(a, b))
    """

    def __call__(self, text: str | Sequence[str]) -> list[float] | list[list[float]]:
        return self.predict([text])[0] if isinstance(text, str) else self.predict(text)

    def predict(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vector of every text; a text beyond the maximum length is truncated."""
        return [vector for batch in batches(self.encode_batch(texts)) for vector in self.logits(batch).tolist()]


@dataclass(frozen=True)
class ContextualVectors:
    """The words of a text and their vectors (W×D each) by layer: "embedding", "layer 1 →", "layer 1 ←", …

    An arrow is the direction in which the layer reads.
    """

    words: list[str]
    vectors: dict[str, Tensor]

    def mean(self) -> Tensor:
        """Return the mean over the layers, both directions concatenated, W×2D. The embedding counts as a layer."""
        embedding, *states = self.vectors.values()
        both = [torch.cat(pair, dim=1) for pair in zip(states[::2], states[1::2], strict=True)]
        return torch.stack([embedding.repeat(1, 2), *both]).mean(dim=0)


class ContextualEmbedder(SequencePredictor):
    """A bidirectional language model (ELMo) that gives each word a vector that depends on its context.

    Example:
        >>> embedder = gf.load("runs/elmo")
        >>> vectors_WD = embedder("the bank of the river")
    """

    def __call__(self, text: str) -> Tensor:
        return self.in_context(text).mean()

    def encode(self, text: str) -> list[int]:
        refuse_empty([text])
        return [SOS, *self.tokenizer.encode(text), EOS]

    @torch.inference_mode()
    def in_context(self, text: str) -> ContextualVectors:
        """Return the vectors of every layer.

        Reading left to right, a word has the state at its last token; right to left, the state at its first.
        """
        ids, recorder = self.encode(text), Recorder(copy=False)
        self.model(torch.tensor([ids], device=next(self.model.parameters()).device), recorder)
        recorded = {name: tensor[0].cpu() for name, tensor in recorder.tensors.items()}
        words = word_spans(ids[1:-1], self.tokenizer)
        first, last = torch.tensor([[1 + word.first, 1 + word.last] for word in words]).T
        tokens_TD = recorded["encoder.embedding"][1:-1]
        vectors = {"embedding": torch.stack([tokens_TD[word.first : word.last + 1].mean(dim=0) for word in words])}
        for layer in range(len(self.model.forwards.layers)):
            vectors[f"layer {layer + 1} →"] = recorded[f"forwards.{layer}.hidden_state"][last]
            vectors[f"layer {layer + 1} ←"] = recorded[f"backwards.{layer}.hidden_state"].flip(0)[first]
        return ContextualVectors([word.text for word in words], vectors)

    def compare_words(self, texts: Sequence[str], word: str | None = None) -> list[WordComparison]:
        """Compare the vectors of words, or of one word, in different contexts; see `glass.word_in_context`."""
        from glassformer.glass.word_in_context import compare_words

        return compare_words([self.in_context(text) for text in texts], word)
