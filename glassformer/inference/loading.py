"""From the folder of a run to what it learnt to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glassformer import machine
from glassformer.data.images.format import Form
from glassformer.errors import UserError
from glassformer.inference.classifier import ImageClassifier, TextClassifier, TextTagger
from glassformer.inference.embeddings import ContextualEmbedder, SentenceEmbedder
from glassformer.inference.fill_mask import MaskFiller
from glassformer.inference.generator import MusicGenerator, TextGenerator
from glassformer.inference.question_answering import QuestionAnswerer
from glassformer.inference.run import Run, RunFolder, load_run, load_settings
from glassformer.inference.translator import Precision, load_translator
from glassformer.settings import ViTSettings

Predictor = (
    TextClassifier
    | ImageClassifier
    | TextTagger
    | QuestionAnswerer
    | TextGenerator
    | MusicGenerator
    | ContextualEmbedder
    | MaskFiller
    | SentenceEmbedder
)


def load(run: str | Path, *, precision: Precision = "fp32", device: str | None = None) -> Any:
    """What a run learnt to do: a Translator, TextClassifier, ImageClassifier, TextTagger … by its task."""
    if load_settings(RunFolder(run)).task == "translation":
        return load_translator(run, precision=precision, device=device)
    device = device or machine.device()
    if device != "cpu" and precision == "int8":
        raise UserError("int8 is for CPUs.", hint="leave it out: a GPU is fast without")
    # In fp32 a whole text is read at once, by kernels that want the weights as they are.
    return predictor_of(load_run(run, device=device, precision="int8" if precision == "int8" else None))


def load_predictor(run: str | Path) -> Predictor:
    """As `load`, for all but translators."""
    if load_settings(RunFolder(run)).task == "translation":
        raise UserError(
            "This run translates: that is another command.", where=str(run), hint=f'glassformer translate {run} "…"'
        )
    return predictor_of(load_run(run, device=machine.device()))


def predictor_of(run: Run) -> Predictor:
    match run.settings.task:
        case "classification":
            return TextClassifier(run.model, run.tokenizer, run.labels)
        case "images":
            assert isinstance(run.settings.model, ViTSettings)
            return ImageClassifier(run.model, Form.of(run.settings.model), run.labels)
        case "tagging":
            return TextTagger(run.model, run.tokenizer, run.labels)
        case "answers":
            return QuestionAnswerer(run.model, run.tokenizer, run.settings.data)
        case "music":
            return MusicGenerator(run.model, run.tokenizer)
        case "word_vectors":
            return ContextualEmbedder(run.model, run.tokenizer)
        case "masked_words":
            return MaskFiller(run.model, run.tokenizer)
        case "vectors":
            return SentenceEmbedder(run.model, run.tokenizer)
        case _:
            return TextGenerator(run.model, run.tokenizer)
