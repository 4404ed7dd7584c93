"""Glassformer: train a Transformer on your own text, translate with it, look through it as through glass.

import glassformer as gf
run = gf.train("train.en", "train.de", out="runs/en-de")
translator = gf.load("runs/en-de")
translator("I am a student")
trace = translator.trace("I am a student")  # every number on the way: trace["encoder.0.self.weights"]

`load` gives a Translator, or for a run of another task what that learnt to do: a Labeller, a Tagger, a LanguageModel …
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
        WordVectors,
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
    "WordVectors",
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
    "WordVectors": "glassformer.predictor",
    "load": "glassformer.predictor",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'glassformer' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
