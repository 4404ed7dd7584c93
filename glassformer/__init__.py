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
    from glassformer.errors import UserError
    from glassformer.inference import (
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
    from glassformer.inference.answerer import Answerer, Found
    from glassformer.inference.translator import Sampling, Translation, Translator
    from glassformer.training.train import TrainedRun, train

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
    "Sampling": "glassformer.inference.translator",
    "Translation": "glassformer.inference.translator",
    "Translator": "glassformer.inference.translator",
    "Answerer": "glassformer.inference.answerer",
    "Found": "glassformer.inference.answerer",
    "BlankFiller": "glassformer.inference",
    "Composer": "glassformer.inference",
    "ImageLabeller": "glassformer.inference",
    "Labeller": "glassformer.inference",
    "LanguageModel": "glassformer.inference",
    "Tagger": "glassformer.inference",
    "Vectorizer": "glassformer.inference",
    "WordVectors": "glassformer.inference",
    "load": "glassformer.inference",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'glassformer' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
