"""Predictors: a trained run and an input (text or image) in, an answer out.

translator.py          Translator; batch_decoder.py: batches, workers.py: one per core, shards.py: parts of a file
classifier.py          TextClassifier, ImageClassifier, TextTagger
question_answering.py  QuestionAnswerer
generator.py           TextGenerator, MusicGenerator
fill_mask.py           MaskFiller
embeddings.py          SentenceEmbedder, ContextualEmbedder
predictor.py           the base classes of predictors
search_engine.py       runs a model with PyTorch or the native engine; native_modules.py: BERT and GPT
run_folder.py          the files of a run folder; run.py: its model
loading.py             run folder → predictor, by its task
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.inference.classifier import Classification, ImageClassifier, TextClassifier, TextTagger
    from glassformer.inference.embeddings import ContextualEmbedder, SentenceEmbedder
    from glassformer.inference.fill_mask import FilledText, MaskFiller
    from glassformer.inference.generator import MAX_NEW_TOKENS, STEPS_PER_BAR, MusicGenerator, TextGenerator
    from glassformer.inference.loading import load, load_predictor, predictor_of
    from glassformer.inference.predictor import refuse_empty
    from glassformer.inference.question_answering import AnswerSpan, QuestionAnswerer
    from glassformer.inference.translator import Translation, Translator

__all__ = [
    "MAX_NEW_TOKENS",
    "STEPS_PER_BAR",
    "AnswerSpan",
    "Classification",
    "ContextualEmbedder",
    "FilledText",
    "ImageClassifier",
    "MaskFiller",
    "MusicGenerator",
    "QuestionAnswerer",
    "SentenceEmbedder",
    "TextClassifier",
    "TextGenerator",
    "TextTagger",
    "Translation",
    "Translator",
    "load",
    "load_predictor",
    "predictor_of",
    "refuse_empty",
]

# Imported when they are first used: the translator does not need PyTorch, which takes seconds to import.
_MODULES = {
    "glassformer.inference.classifier": (
        "Classification",
        "ImageClassifier",
        "TextClassifier",
        "TextTagger",
    ),
    "glassformer.inference.embeddings": (
        "ContextualEmbedder",
        "SentenceEmbedder",
    ),
    "glassformer.inference.predictor": ("refuse_empty",),
    "glassformer.inference.fill_mask": (
        "FilledText",
        "MaskFiller",
    ),
    "glassformer.inference.generator": (
        "MAX_NEW_TOKENS",
        "STEPS_PER_BAR",
        "MusicGenerator",
        "TextGenerator",
    ),
    "glassformer.inference.loading": (
        "load",
        "load_predictor",
        "predictor_of",
    ),
    "glassformer.inference.question_answering": (
        "AnswerSpan",
        "QuestionAnswerer",
    ),
    "glassformer.inference.translator": (
        "Translation",
        "Translator",
    ),
}


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'glassformer.inference' has no attribute '{name}'")
    return getattr(import_module(module), name)
