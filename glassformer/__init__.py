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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.decoding.sampling import Sampling
    from glassformer.errors import UserError
    from glassformer.inference.classifier import ImageClassifier, TextClassifier, TextTagger
    from glassformer.inference.embeddings import ContextualEmbedder, SentenceEmbedder
    from glassformer.inference.fill_mask import MaskFiller
    from glassformer.inference.generator import MusicGenerator, TextGenerator
    from glassformer.inference.loading import load
    from glassformer.inference.question_answering import AnswerSpan, QuestionAnswerer
    from glassformer.inference.translator import Translation, Translator
    from glassformer.training.train import TrainedRun, train

__all__ = [
    "AnswerSpan", "ContextualEmbedder", "ImageClassifier", "MaskFiller", "MusicGenerator", "QuestionAnswerer",
    "Sampling", "SentenceEmbedder", "TextClassifier", "TextGenerator", "TextTagger", "TrainedRun", "Translation",
    "Translator", "UserError", "load", "train",
]  # fmt: skip

# Names are imported when they are first used, because importing PyTorch takes seconds.
_MODULES = {
    "decoding.sampling": ("Sampling",),
    "errors": ("UserError",),
    "inference.classifier": ("ImageClassifier", "TextClassifier", "TextTagger"),
    "inference.embeddings": ("ContextualEmbedder", "SentenceEmbedder"),
    "inference.fill_mask": ("MaskFiller",),
    "inference.generator": ("MusicGenerator", "TextGenerator"),
    "inference.loading": ("load",),
    "inference.question_answering": ("AnswerSpan", "QuestionAnswerer"),
    "inference.translator": ("Translation", "Translator"),
    "training.train": ("TrainedRun", "train"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"glassformer.{module}"), name)
    raise AttributeError(f"module 'glassformer' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
