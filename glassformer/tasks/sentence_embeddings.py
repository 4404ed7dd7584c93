"""Sentence embeddings: one vector per text, from imported or pre-trained encoders. There is nothing to train."""

from __future__ import annotations

import json
from functools import partial

from glassformer.data.preparation import ProgressCallback
from glassformer.errors import UserError
from glassformer.inference.embeddings import SentenceEmbedder
from glassformer.models.heads import SentenceEmbedding
from glassformer.settings import DataSettings
from glassformer.tasks.labelled import predict_lines
from glassformer.tasks.spec import Data, TaskSpec


def refuse_training(settings: DataSettings, progress: ProgressCallback) -> Data:
    hint = "pre-train with task=masked_language_model, or import a model: glassformer import DIR -o RUN"
    raise UserError("Sentence embeddings cannot be trained.", where="task = sentence_embeddings", hint=hint)


def show_vector(text: str, vector: list[float], as_json: bool) -> str:
    if as_json:
        return json.dumps({"text": text, "vector": vector}, ensure_ascii=False)
    return " ".join(f"{number:.6f}" for number in vector)


SPEC = TaskSpec(
    name="sentence_embeddings",
    families=("bert",),
    output="vectors",
    head=lambda model: SentenceEmbedding,
    pretrains=True,
    predictor=lambda run: SentenceEmbedder(run.model, run.tokenizer),
    data=refuse_training,
    predict=partial(predict_lines, show=show_vector),
    huggingface={"bert": "BertModel"},
)
