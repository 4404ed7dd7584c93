"""Glassformer: train a Transformer on your own text, translate with it, look through it as through glass.

import glassformer as gf
run = gf.train("train.en", "train.de", out="runs/en-de")
translator = gf.load("runs/en-de")
translator("I am a student")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.answerer import Answerer, Found
    from glassformer.errors import UserError
    from glassformer.predictor import (
        BlankFiller,
        Composer,
        ImageLabeller,
        Labeller,
        LanguageModel,
        Tagger,
        Vectorizer,
        load,
    )
    from glassformer.training.train import TrainedRun, train
    from glassformer.translator import Sampling, Translation, Translator

__all__ = [
    "Answerer",
    "BlankFiller",
    "Composer",
    "Found",
    "ImageLabeller",
    "Labeller",
    "LanguageModel",
    "Sampling",
    "Tagger",
    "TrainedRun",
    "Translation",
    "Translator",
    "UserError",
    "Vectorizer",
    "load",
    "train",
]

# Importing PyTorch takes seconds; `glassformer --help` should not. So the names are fetched when first used.
_HOMES = {
    "UserError": "glassformer.errors",
    "TrainedRun": "glassformer.training.train",
    "train": "glassformer.training.train",
    "Sampling": "glassformer.translator",
    "Translation": "glassformer.translator",
    "Translator": "glassformer.translator",
    "Answerer": "glassformer.answerer",
    "Found": "glassformer.answerer",
    "BlankFiller": "glassformer.predictor",
    "Composer": "glassformer.predictor",
    "ImageLabeller": "glassformer.predictor",
    "Labeller": "glassformer.predictor",
    "LanguageModel": "glassformer.predictor",
    "Tagger": "glassformer.predictor",
    "Vectorizer": "glassformer.predictor",
    "load": "glassformer.predictor",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'glassformer' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
