"""How an encoder and its head read texts: so many at once, none empty, none longer than it sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from glassformer.data.batching import pad_rows
from glassformer.errors import UserError
from glassformer.glass.trace import Trace, trace_alone
from glassformer.text.lines import normalize_line
from glassformer.text.tokenizer import EOS, SOS, Tokenizer

TEXTS_AT_ONCE = 64

Item = TypeVar("Item")


def refuse_empty(texts: Sequence[str]) -> None:
    for number, text in enumerate(texts, 1):
        if not normalize_line(text):
            raise UserError("The text is empty.", where=f"text {number}", hint="enter some words")


def chunks(items: list[Item]) -> Iterator[list[Item]]:
    for i in range(0, len(items), TEXTS_AT_ONCE):
        yield items[i : i + TEXTS_AT_ONCE]


def read_before(model: Any) -> list[int]:
    """What an encoder reads before a text."""
    return [SOS] if model.encoder.reads_sos else []


def longest_text(model: Any) -> int | None:
    """Tokens of a text that an encoder sees; None for any number."""
    longest = model.encoder.max_positions
    return None if longest is None else longest - len(read_before(model)) - 1


def model_input(model: Any, ids: Sequence[int]) -> list[int]:
    """Return the tokens that an encoder reads for the tokens of a text: for an answer and for its trace alike."""
    return [*read_before(model), *ids, EOS]


@torch.inference_mode()
def logits_of(model: Any, rows: list[list[int]]) -> Tensor:
    """What the head says of each text, in fp32; the shape is the head's."""
    device = next(model.parameters()).device
    logits: Tensor = model(pad_rows([model_input(model, row) for row in rows]).to(device))
    return logits.float()


def encode_texts(model: Any, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of each text, as many of them as the model sees. An empty text is refused."""
    refuse_empty(texts)
    return [ids[: longest_text(model)] for ids in tokenizer.encode_batch(texts)]


def trace_text(model: Any, tokenizer: Tokenizer, ids: list[int], labels: Sequence[str] | None = None) -> Trace:
    """Trace what an encoder and its head compute for the tokens of a text, which `logits_of` is given as well."""
    answers = None if labels is None else lambda chosen: [labels[i] for i in chosen]
    return trace_alone(model, tokenizer.pieces, model_input(model, ids), answers=answers)
