"""Tables of model sizes and training settings by the amount of data, found by experiments.

A small corpus gets a small model: on 30 thousand pairs the base model of the paper overfits. The sizes for the largest
corpora are those of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from glassformer.errors import Message


@dataclass(frozen=True)
class Size:
    """Sizes of a model with attention layers, for fewer than `up_to` pairs, characters, notes, examples or images."""

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
    lr: float  # with Adam
    epochs: int
    optimizer: str = "adam"


@dataclass(frozen=True)
class MuonRates:
    """The learning rates with Muon: `matrix_lr` of the matrices, `lr` of all other weights, which Adam updates."""

    lr: float
    matrix_lr: float
    warmup: int = 200


MUON_ON_TOKENS = MuonRates(8e-3, 0.02)
MUON_ON_IMAGES = MuonRates(2e-3, 0.005, 500)

SIZES = (  # for small and modest corpora: docs/results/quality.md
    Size(3_000, "very small", 1_000, 2, 128, 4, 256, 0.3, 1_024, 400, 2e-3, 150),
    Size(12_000, "small", 8_000, 3, 128, 4, 256, 0.3, 2_048, 800, 1e-3, 34, "muon"),
    Size(60_000, "modest", 10_000, 4, 128, 4, 256, 0.2, 2_048, 800, 1e-3, 30, "muon"),
    Size(300_000, "medium", 8_000, 4, 256, 4, 1_024, 0.2, 4_096, 2_000, 1e-3, 20, "muon"),
    Size(2_000_000, "large", 16_000, 6, 512, 8, 1_024, 0.2, 8_192, 4_000, 7e-4, 15),
    Size(float("inf"), "very large", 32_000, 6, 512, 8, 2_048, 0.1, 25_000, 4_000, 7e-4, 10),
)


@dataclass(frozen=True)
class RecurrentSize:
    """Sizes of a recurrent model, for fewer than `up_to` characters, notes or examples."""

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


RUNNING_TEXT = (  # by characters or notes
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
GPT_SIZES = (  # by characters or notes
    Size(100_000, "very small", 500, 2, 128, 4, 512, 0.2, 1_024, 100, 1e-3, 40, "muon"),
    Size(500_000, "small", 1_000, 4, 128, 4, 512, 0.2, 2_048, 200, 1e-3, 30, "muon"),
    Size(5_000_000, "modest", 2_000, 4, 256, 4, 1_024, 0.2, 4_096, 200, 1e-3, 15, "muon"),
    Size(100_000_000, "medium", 8_000, 6, 384, 6, 1_536, 0.1, 8_192, 500, 1e-3, 5),
    Size(float("inf"), "large", 16_000, 12, 768, 12, 3_072, 0.1, 16_384, 2_000, 6e-4, 2),
)
BERT_SIZES = (  # by texts or sentences
    Size(1_000, "very small", 500, 2, 64, 4, 256, 0.3, 512, 50, 1e-3, 40),
    Size(20_000, "small", 4_000, 2, 128, 4, 512, 0.3, 2_048, 200, 1e-3, 20),
    Size(200_000, "medium", 8_000, 2, 128, 4, 512, 0.2, 2_048, 300, 5e-4, 5),
    Size(float("inf"), "large", 16_000, 6, 384, 6, 1_536, 0.1, 8_192, 1_000, 5e-4, 5),
)
# With Muon and a cosine, tagging of English improved from 93.0 to 93.9 %, classification did not: docs/results/tasks.md
BERT_TAGGING = tuple(replace(size, optimizer="muon") if size.up_to <= 20_000 else size for size in BERT_SIZES)
BERT_PRETRAINING = (  # by characters; only 15 % of the tokens are predicted, so it needs many steps
    Size(100_000, "very small", 1_000, 2, 64, 4, 256, 0.1, 1_024, 200, 1e-3, 40, "muon"),
    Size(2_000_000, "small", 4_000, 2, 128, 4, 512, 0.1, 1_024, 400, 1e-3, 25, "muon"),
    Size(20_000_000, "modest", 8_000, 3, 192, 4, 768, 0.1, 4_096, 500, 1e-3, 15),
    Size(200_000_000, "medium", 16_000, 6, 384, 6, 1_536, 0.1, 8_192, 1_000, 1e-3, 5),
    Size(float("inf"), "large", 30_000, 12, 768, 12, 3_072, 0.1, 16_384, 4_000, 4e-4, 2),
)
IMAGE_SIZES = (  # no vocabulary; Muon was measured on Fashion-MNIST (60,000 images): docs/results/tasks.md
    Size(2_000, "very small", 0, 3, 64, 4, 128, 0.1, 1_024, 100, 1e-3, 40),
    Size(20_000, "small", 0, 4, 96, 4, 192, 0.1, 1_024, 300, 7e-4, 30),
    Size(200_000, "medium", 0, 4, 192, 4, 384, 0.0, 1_088, 500, 5e-4, 17, "muon"),
    Size(float("inf"), "large", 0, 8, 256, 8, 512, 0.0, 4_096, 1_000, 5e-4, 10),
)


def size_for(pairs: int) -> Size:
    """Return the sizes for a translation corpus."""
    return next(size for size in SIZES if pairs < size.up_to)


@dataclass(frozen=True)
class TaskSizes:
    """The sizes that a task on text plans with.

    unit          what its data is measured in: characters, notes, texts …
    tables        model family → sizes, smallest first
    fixed_length  families that train for the planned number of steps, with a learning rate that ends at 0; the others
                  stop when the metric no longer improves
    """

    unit: str
    tables: Mapping[str, Sequence[Size | RecurrentSize]]
    fixed_length: frozenset[str] = frozenset()

    def size_for(self, family: str, amount: int) -> tuple[Size | RecurrentSize, str]:
        """Return the size for an amount of data, and a description of the data."""
        size = next(size for size in self.tables[family] if amount < size.up_to)
        return size, Message(
            "{size} data set of {n} {unit}", size=Message(size.name), n=f"{amount:,}", unit=Message(self.unit)
        )
