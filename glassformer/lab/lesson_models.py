"""The small models of the lessons: one per model family, trained on embedded data in seconds to a minute each."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.phrasebook.corpus import Phrasebook, phrasebook
from glassformer.tasks import contextual_embeddings, masked_language_model

DEMO = "demo"  # the name of the Transformer of `glassformer demo` in the lessons
SENTENCES = 4_000
IMAGES, IMAGE_SIZE = 2_000, 16
SHAPES = ("horizontal stripes", "vertical stripes", "checkerboard", "square", "diagonal", "cross")


@dataclass(frozen=True)
class LessonModel:
    """A model of the lessons: the name of its run folder, its data, and its settings."""

    name: str
    title: str
    write_data: Callable[[Path], list[str]]  # writes the training files to a folder and returns their paths
    settings: Mapping[str, Any]


def write_pairs(folder: Path, book: Phrasebook | None = None) -> list[str]:
    """Write English–French sentence pairs of a phrasebook, by default a small one."""
    book = book or phrasebook(size=SENTENCES)
    return [_write(folder / f"train.{language}", book.text("train", language)) for language in ("en", "fr")]


def _write_text(folder: Path) -> list[str]:
    """Write the English sentences of a small phrasebook as running text."""
    return [_write(folder / "train.txt", phrasebook(size=SENTENCES).text("train", "en"))]


def _write_images(folder: Path) -> list[str]:
    """Write generated images of six shapes, with noise, as two idx files."""
    generator = np.random.default_rng(1)
    labels = np.arange(IMAGES, dtype=np.uint8) % len(SHAPES)
    shapes = np.stack([_draw(SHAPES[label], generator) for label in labels])
    images = np.clip(shapes * 200 + generator.normal(20, 15, shapes.shape), 0, 255).astype(np.uint8)
    paths = [folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"]
    for path, array in zip(paths, (images, labels), strict=True):
        path.write_bytes(struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes())
    return [str(path) for path in paths]


def _draw(shape: str, generator: np.random.Generator) -> np.ndarray:
    """Draw a shape with random width and place; 1 is foreground."""
    y, x = np.mgrid[:IMAGE_SIZE, :IMAGE_SIZE]
    width, a, b = generator.integers(2, 4), *generator.integers(3, IMAGE_SIZE - 6, 2)
    stripes_y, stripes_x = (y + a) // width % 2, (x + b) // width % 2
    drawn: dict[str, np.ndarray] = {
        "horizontal stripes": stripes_y == 0,
        "vertical stripes": stripes_x == 0,
        "checkerboard": stripes_y == stripes_x,
        "square": (abs(y - a - 2) <= width) & (abs(x - b - 2) <= width),
        "diagonal": abs(y - x + a - b) <= width - 1,
        "cross": (abs(y - a) < width - 1) | (abs(x - b) < width - 1),
    }
    return drawn[shape]


def _write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def _recurrent(name: str, title: str, **model: object) -> LessonModel:
    """Return an encoder–decoder of recurrent cells."""
    settings = {
        "model.family": "recurrent",
        "model.d_model": 96,
        "model.layers": 1,
        "model.bidirectional": False,
        **{f"model.{key}": value for key, value in model.items()},
        **_training(steps=600, batch_tokens=1_024, lr=3e-3),
        "tokenizer.vocab": 1_200,
    }
    return LessonModel(name, title, write_pairs, settings)


def _training(*, steps: int, batch_tokens: int, lr: float) -> dict[str, Any]:
    return {
        "train.steps": steps,
        "train.batch_tokens": batch_tokens,
        "train.lr": lr,
        "train.warmup": steps // 8,
        "train.validate_every": steps // 2,
        "train.checkpoint_every": steps // 2,
        "train.average": 1,
        "train.optimizer": "muon",
        "train.schedule": "cosine",
        "train.precision": "fp32",
    }


_SMALL = {"model.layers": 2, "model.d_model": 64, "model.heads": 4, "model.d_ff": 128, "model.dropout": 0.1}
_LEARNED_POSITIONS = {"model.positions": "learned"}  # as in the papers
_TEXT = {"tokenizer.vocab": 1_200, **_training(steps=600, batch_tokens=1_024, lr=3e-3)}

LESSON_MODELS = (
    LessonModel(
        "window",
        "fixed-window language model",
        _write_text,
        {"model.family": "window", "model.window": 3, "model.d_model": 32, **_TEXT},
    ),
    _recurrent("rnn", "RNN encoder–decoder", cell="rnn", attention="none"),
    _recurrent("lstm", "LSTM encoder–decoder", cell="lstm", attention="none"),
    _recurrent("gru", "GRU encoder–decoder", cell="gru", attention="none"),
    _recurrent("gru-additive", "GRU with additive attention", cell="gru", attention="additive"),
    _recurrent(
        "bigru", "bidirectional GRU with additive attention", cell="gru", attention="additive", bidirectional=True
    ),
    LessonModel(
        "post-norm",
        "Transformer with post-norm, as in the paper",
        write_pairs,
        {
            "model.norm": "post",
            "model.encoder_layers": 2,
            "model.decoder_layers": 1,
            "model.d_model": 128,
            "model.heads": 2,
            "model.d_ff": 256,
            "model.dropout": 0.1,
            **_TEXT,
            **_training(steps=1_200, batch_tokens=1_024, lr=2e-3),
            "train.optimizer": "adam",
        },
    ),
    LessonModel(
        "elmo",
        "ELMo",
        _write_text,
        {"task": contextual_embeddings.SPEC.name, "model.family": "elmo", "model.d_model": 64, **_TEXT},
    ),
    LessonModel(
        "bert",
        "BERT",
        _write_text,
        {
            "task": masked_language_model.SPEC.name,
            "model.family": "bert",
            **_LEARNED_POSITIONS,
            **_SMALL,
            **_TEXT,
            **_training(steps=1_500, batch_tokens=1_024, lr=3e-3),  # only 15 % of the tokens are predicted
        },
    ),
    LessonModel("gpt", "GPT", _write_text, {"model.family": "gpt", **_LEARNED_POSITIONS, **_SMALL, **_TEXT}),
    LessonModel(
        "vit",
        "Vision Transformer",
        _write_images,
        {"model.patch": 4, **_SMALL, **_training(steps=200, batch_tokens=1_088, lr=1e-3)},
    ),
)
