"""Runs of other tasks than translation: the output that is shown is that of the traced pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from glassformer.inference.classifier import TextTagger
from glassformer.inference.question_answering import QuestionAnswerer
from glassformer.models.bert import BERT
from glassformer.models.heads import SpanFinder, Tagger
from glassformer.settings import BertSettings, DataSettings, Settings
from glassformer.studio.model_store import LoadedRun
from glassformer.studio.serialization import outline
from glassformer.studio.tracing import TraceRequest, TraceResult, ask
from glassformer.text.tokenizer import PAD, Tokenizer

TOKENIZER = Tokenizer.train_bpe(
    ["the cat doesn't sleep, it's hungry.", "Ana likes red and Ben likes blue ."] * 3, vocab=330
)
MODEL = BertSettings(d_model=21, heads=3, d_ff=37, dropout=0.0, layers=2, max_positions=61)


def bert() -> BERT:
    return BERT(MODEL, len(TOKENIZER), pad=PAD)


class Undecided(SpanFinder):
    """Prefers no answer to every answer."""

    def forward(self, *given: Any) -> Tensor:
        logits_BS2: Tensor = super().forward(*given)
        return logits_BS2 + 50 * (torch.arange(logits_BS2.shape[1]) == 0)[:, None]


def asked(predictor: Any, task: str, **question: str) -> TraceResult:
    settings = Settings.model_construct(task=task, model=MODEL)
    return ask(LoadedRun("run", settings, predictor, (0, 0)), TraceRequest("run", **question))


def test_no_answer_is_shown_where_none_is_predicted() -> None:
    for no_answer in (True, False):
        data = DataSettings(train=["a"], no_answer=no_answer, window=31, overlap=3)
        predictor = QuestionAnswerer(Undecided(bert()).eval(), TOKENIZER, data)
        text, question = "Ana likes red and Ben likes blue .", "what likes Ben ?"
        seen = asked(predictor, "question_answering", text=text, question=question)
        assert seen.output == (predictor(question, text) or "")
        assert (seen.output == "") == no_answer
        assert outline("1", seen)["predicted"] == (["<no answer>"] if no_answer else [seen.output])


def test_the_tags_that_are_shown_are_those_of_the_trace() -> None:
    labels = list("abcde")
    predictor = TextTagger(Tagger(bert(), len(labels)).eval(), TOKENIZER, labels)
    seen = asked(predictor, "tagging", text="the cat doesn't sleep, it's hungry.")
    at = 0  # <sos>
    for word, tag in (pair.rsplit("/", 1) for pair in seen.output.split()):
        at += len(TOKENIZER.encode(word))
        assert seen.trace.predicted[at] == tag
    assert at == len(seen.trace.source) - 2
