"""Text or image in, answer out, for every task but translation: a label, tags, a continuation, music, vectors.

labels.py    Labeller, ImageLabeller, Tagger
blanks.py    BlankFiller
vectors.py   Vectorizer, WordVectors
encoders.py  how all of these read texts
writing.py   LanguageModel, Composer
loading.py   a run's folder to one of them, or to an Answerer (`answerer.py`), by its task
"""

from __future__ import annotations

from glassformer.inference.answerer import Answerer
from glassformer.inference.classifier import ImageLabeller, Labeller, Labels, Tagger
from glassformer.inference.embeddings import Vectorizer, WordVectors
from glassformer.inference.encoding import refuse_empty
from glassformer.inference.fill_mask import BlankFiller, Filled
from glassformer.inference.generator import LENGTH, STEPS_A_BAR, Composer, LanguageModel
from glassformer.inference.loading import load, load_predictor, predictor_of

__all__ = [
    "LENGTH",
    "STEPS_A_BAR",
    "Answerer",
    "BlankFiller",
    "Composer",
    "Filled",
    "ImageLabeller",
    "Labeller",
    "Labels",
    "LanguageModel",
    "Tagger",
    "Vectorizer",
    "WordVectors",
    "load",
    "load_predictor",
    "predictor_of",
    "refuse_empty",
]
