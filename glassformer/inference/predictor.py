"""Encoding of texts for predictors that consist of an encoder and a head: limits, batches, logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from glassformer.data.batching import pad_rows
from glassformer.errors import UserError
from glassformer.text.lines import normalize_line
from glassformer.text.tokenizer import EOS, SOS, Tokenizer

if TYPE_CHECKING:
    from glassformer.glass.trace import Trace

BATCH_TEXTS = 64

Item = TypeVar("Item")


class SequencePredictor:
    """Base class of predictors whose model reads one token sequence. `labels` are the classes, if there are any."""

    def __init__(self, model: Any, tokenizer: Tokenizer, labels: Sequence[str] | None = None) -> None:
        self.model, self.tokenizer, self.labels = model, tokenizer, labels or []
        self.fast_model = model  # computes predictions, in the native engine where that can run; `model` is traced

    def encode(self, text: str) -> list[int]:
        """Return the token ids that the model reads for a text."""
        raise NotImplementedError

    def trace(self, text: str) -> Trace:
        """Trace the forward pass over a text: every intermediate tensor by name."""
        from glassformer.glass.trace import trace_text

        return trace_text(self, text)


class EncoderPredictor(SequencePredictor):
    """A predictor whose model is an encoder with a head."""

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the model input of each text, truncated to the model's maximum length. Empty texts are refused."""
        refuse_empty(texts)
        return [self.with_special_tokens(ids[: self.max_text_tokens]) for ids in self.tokenizer.encode_batch(texts)]

    @property
    def max_text_tokens(self) -> int | None:
        """The maximum number of tokens of a text, without special tokens; None if unlimited."""
        longest = self.model.encoder.max_positions
        return None if longest is None else longest - len(self.with_special_tokens([]))

    def with_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return token ids with `<sos>` (if the encoder reads it) and `<eos>`."""
        return [*([SOS] if self.model.encoder.reads_sos else []), *ids, EOS]

    @torch.inference_mode()
    def logits(self, rows: list[list[int]]) -> Tensor:
        """Return the output of the head for a batch of model inputs, in fp32; its shape depends on the head."""
        device = next(self.model.parameters()).device
        logits: Tensor = self.fast_model(pad_rows(rows).to(device))
        return logits.float()


def refuse_empty(texts: Sequence[str]) -> None:
    """Raise a `UserError` if a text is empty."""
    for number, text in enumerate(texts, 1):
        if not normalize_line(text):
            raise UserError("The text is empty.", where=f"text {number}", hint="enter some words")


def batches(items: list[Item]) -> Iterator[list[Item]]:
    """Yield the items, `BATCH_TEXTS` at a time."""
    for i in range(0, len(items), BATCH_TEXTS):
        yield items[i : i + BATCH_TEXTS]
