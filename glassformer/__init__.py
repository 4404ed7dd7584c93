"""Glassformer: train a Transformer on your own text, translate with it, and inspect every tensor of it.

Example:
    >>> import glassformer as gf
    >>> run = gf.train("train.en", "train.de", out="runs/en-de")
    >>> translator = gf.load("runs/en-de")
    >>> translator("I am a student")
    >>> trace = translator.trace("I am a student")
    >>> trace["encoder.0.self.weights"]

`load` returns a `Translator`, or the predictor of the run's task: `TextClassifier`, `TextTagger`, `TextGenerator`, …
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.decoding.sampling import Sampling
    from glassformer.errors import UserError
    from glassformer.inference import (
        AnswerSpan,
        ContextualEmbedder,
        ImageClassifier,
        MaskFiller,
        MusicGenerator,
        QuestionAnswerer,
        SentenceEmbedder,
        TextClassifier,
        TextGenerator,
        TextTagger,
        Translation,
        Translator,
        load,
    )
    from glassformer.training.train import TrainedRun, train

__all__ = [
    "AnswerSpan",
    "ContextualEmbedder",
    "ImageClassifier",
    "MaskFiller",
    "MusicGenerator",
    "QuestionAnswerer",
    "Sampling",
    "SentenceEmbedder",
    "TextClassifier",
    "TextGenerator",
    "TextTagger",
    "TrainedRun",
    "Translation",
    "Translator",
    "UserError",
    "load",
    "train",
]

# Names are imported when they are first used, because importing PyTorch takes seconds. Default: glassformer.inference.
_MODULES = {
    "Sampling": "glassformer.decoding.sampling",
    "TrainedRun": "glassformer.training.train",
    "UserError": "glassformer.errors",
    "train": "glassformer.training.train",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'glassformer' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_MODULES.get(name, "glassformer.inference")), name)


def __dir__() -> list[str]:
    return __all__
