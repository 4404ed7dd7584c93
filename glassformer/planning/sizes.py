"""How large a model suits how much data, and how it is trained: tables, found by trying.

A small corpus gets a small model: on 30 thousand pairs the paper's base model learns the training text by heart. Those
for the largest corpora are the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.errors import Message


@dataclass(frozen=True)
class Size:
    """What suits layers of attention, for fewer than `up_to` pairs (or characters, notes, examples, images)."""

    up_to: float
    name: str
    vocab: int
    layers: int
    d_model: int
    heads: int
    d_ff: int
    dropout: float
    batch_tokens: int
    warmup: int
    lr: float
    epochs: int


SIZES = (
    Size(3_000, "very small", 1_000, 2, 128, 4, 256, 0.3, 1_024, 400, 2e-3, 150),
    Size(12_000, "small", 2_000, 3, 256, 4, 512, 0.3, 1_536, 800, 1e-3, 50),
    Size(60_000, "modest", 4_000, 3, 256, 4, 512, 0.25, 2_048, 800, 1e-3, 30),
    Size(300_000, "medium", 8_000, 4, 256, 4, 1_024, 0.2, 4_096, 2_000, 1e-3, 20),
    Size(2_000_000, "large", 16_000, 6, 512, 8, 1_024, 0.2, 8_192, 4_000, 7e-4, 15),
    Size(float("inf"), "very large", 32_000, 6, 512, 8, 2_048, 0.1, 25_000, 4_000, 7e-4, 10),
)


@dataclass(frozen=True)
class RecurrentSize:
    """What suits recurrent layers, alone or under a head, for less than `up_to` (characters, notes, examples)."""

    up_to: float
    name: str
    vocab: int
    layers: int
    d_model: int
    dropout: float
    batch_tokens: int
    warmup: int
    lr: float
    epochs: int


RUNNING_TEXT = (  # by characters, or notes
    RecurrentSize(100_000, "very small", 500, 1, 128, 0.3, 1_024, 100, 3e-3, 40),
    RecurrentSize(500_000, "small", 1_000, 2, 256, 0.3, 2_048, 200, 3e-3, 30),
    RecurrentSize(5_000_000, "modest", 2_000, 2, 256, 0.3, 4_096, 200, 3e-3, 10),
    RecurrentSize(100_000_000, "medium", 8_000, 2, 512, 0.2, 8_192, 500, 2e-3, 5),
    RecurrentSize(float("inf"), "large", 16_000, 2, 1_024, 0.1, 16_384, 1_000, 1e-3, 2),
)
LABELLED_TEXT = (  # by texts or sentences
    RecurrentSize(1_000, "very small", 500, 1, 64, 0.3, 512, 50, 3e-3, 40),
    RecurrentSize(20_000, "small", 4_000, 1, 128, 0.5, 2_048, 100, 2e-3, 20),
    RecurrentSize(200_000, "medium", 8_000, 1, 256, 0.5, 4_096, 200, 2e-3, 10),
    RecurrentSize(float("inf"), "large", 16_000, 2, 512, 0.3, 8_192, 500, 1e-3, 5),
)
QUESTIONS = (
    RecurrentSize(1_000, "very small", 1_000, 1, 64, 0.3, 2_048, 50, 3e-3, 30),
    RecurrentSize(20_000, "small", 4_000, 1, 128, 0.4, 4_096, 100, 2e-3, 15),
    RecurrentSize(float("inf"), "medium", 8_000, 2, 256, 0.3, 8_192, 200, 1e-3, 8),
)
UNITS = {  # of what is counted in the data for a task
    "language_model": "characters",
    "music": "notes",
    "word_vectors": "characters",
    "masked_words": "characters",
    "classification": "texts",
    "tagging": "sentences",
    "answers": "questions",
}
RECURRENT_SIZES = {
    "language_model": RUNNING_TEXT,
    "music": RUNNING_TEXT,
    "word_vectors": RUNNING_TEXT,
    "classification": LABELLED_TEXT,
    "tagging": LABELLED_TEXT,
    "answers": QUESTIONS,
}


GPT_SIZES = (  # by characters, or notes
    Size(100_000, "very small", 500, 2, 128, 4, 512, 0.2, 1_024, 100, 1e-3, 40),
    Size(500_000, "small", 1_000, 4, 128, 4, 512, 0.2, 2_048, 200, 1e-3, 30),
    Size(5_000_000, "modest", 2_000, 4, 256, 4, 1_024, 0.2, 4_096, 200, 1e-3, 15),
    Size(100_000_000, "medium", 8_000, 6, 384, 6, 1_536, 0.1, 8_192, 500, 1e-3, 5),
    Size(float("inf"), "large", 16_000, 12, 768, 12, 3_072, 0.1, 16_384, 2_000, 6e-4, 2),
)
BERT_SIZES = (  # by texts or sentences
    Size(1_000, "very small", 500, 2, 64, 4, 256, 0.3, 512, 50, 1e-3, 40),
    Size(20_000, "small", 4_000, 2, 128, 4, 512, 0.3, 2_048, 200, 1e-3, 20),
    Size(200_000, "medium", 8_000, 2, 128, 4, 512, 0.2, 2_048, 300, 5e-4, 5),
    Size(float("inf"), "large", 16_000, 6, 384, 6, 1_536, 0.1, 8_192, 1_000, 5e-4, 5),
)
BERT_READING = (  # by characters; of 100 tokens it is asked about 15 only, so it needs many steps
    Size(100_000, "very small", 1_000, 2, 64, 4, 256, 0.1, 1_024, 200, 1e-3, 40),
    Size(2_000_000, "small", 4_000, 2, 128, 4, 512, 0.1, 1_024, 400, 1e-3, 25),
    Size(20_000_000, "modest", 8_000, 3, 192, 4, 768, 0.1, 4_096, 500, 1e-3, 15),
    Size(200_000_000, "medium", 16_000, 6, 384, 6, 1_536, 0.1, 8_192, 1_000, 1e-3, 5),
    Size(float("inf"), "large", 30_000, 12, 768, 12, 3_072, 0.1, 16_384, 4_000, 4e-4, 2),
)
ATTENTION_SIZES = {
    ("gpt", "language_model"): GPT_SIZES,
    ("gpt", "music"): GPT_SIZES,
    ("bert", "masked_words"): BERT_READING,
    ("bert", "classification"): BERT_SIZES,
    ("bert", "tagging"): BERT_SIZES,
    ("bert", "answers"): BERT_SIZES,
}


IMAGE_SIZES = (  # no vocabulary; on Fashion-MNIST a rate of 1e-3 was at 83 % after 4,000 steps, one of 5e-4 at 85 %
    Size(2_000, "very small", 0, 3, 64, 4, 128, 0.1, 1_024, 100, 1e-3, 40),
    Size(20_000, "small", 0, 4, 96, 4, 192, 0.1, 1_024, 300, 7e-4, 30),
    Size(200_000, "medium", 0, 4, 192, 4, 384, 0.0, 1_088, 500, 5e-4, 17),
    Size(float("inf"), "large", 0, 8, 256, 8, 512, 0.0, 4_096, 1_000, 5e-4, 10),
)


def size_for(pairs: int) -> Size:
    """What suits a corpus for translation."""
    return next(size for size in SIZES if pairs < size.up_to)


def text_size(family: str, task: str, amount: int) -> tuple[Size | RecurrentSize, str]:
    """What suits any other task on text, and its data in words."""
    sizes: Sequence[Size | RecurrentSize] = ATTENTION_SIZES.get((family, task)) or RECURRENT_SIZES[task]
    size = next(size for size in sizes if amount < size.up_to)
    return size, Message(
        "{size} data set of {n} {unit}", size=Message(size.name), n=f"{amount:,}", unit=Message(UNITS[task])
    )
