"""Predictors: a trained run and an input (text or image) in, an answer out.

translator.py          Translator; batch_decoder.py: batches, workers.py: processes, shards.py: parts of a file
classifier.py          TextClassifier, ImageClassifier, TextTagger
question_answering.py  QuestionAnswerer
generator.py           TextGenerator, MusicGenerator
fill_mask.py           MaskFiller
embeddings.py          SentenceEmbedder, ContextualEmbedder
encoding.py            the base classes of predictors
run.py                 the run folder
loading.py             run folder → predictor, by its task
"""

from __future__ import annotations

from glassformer.inference.classifier import Classification, ImageClassifier, TextClassifier, TextTagger
from glassformer.inference.embeddings import ContextualEmbedder, SentenceEmbedder
from glassformer.inference.encoding import refuse_empty
from glassformer.inference.fill_mask import FilledText, MaskFiller
from glassformer.inference.generator import MAX_NEW_TOKENS, STEPS_PER_BAR, MusicGenerator, TextGenerator
from glassformer.inference.loading import load, load_predictor, predictor_of
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
