"""BERT and GPT in the native engine predict what the PyTorch modules predict."""

from __future__ import annotations

import pytest
import torch

from glassformer.engine.model import NativeModel
from glassformer.inference.native_modules import NativeBERT, NativeGPT
from glassformer.models.bert import BERT
from glassformer.models.gpt import GPT
from glassformer.models.heads import Classifier, MaskedLanguageModel, PoolerClassifier, SpanFinder, Tagger
from glassformer.nn.probe import named_weights
from glassformer.settings import BertSettings, GPTSettings

VOCAB, PAD, LABELS = 41, 0, 7
SIZES = {"layers": 2, "d_model": 12, "heads": 3, "d_ff": 19, "max_positions": 23, "dropout": 0.0}
HEADS = [Classifier, Tagger, PoolerClassifier, SpanFinder, MaskedLanguageModel]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.__name__)
def test_every_head_on_a_native_bert(head: type) -> None:
    torch.manual_seed(1)
    settings = BertSettings(family="bert", **SIZES)
    model = head(BERT(settings, VOCAB, pad=PAD), VOCAB if head is MaskedLanguageModel else LABELS).eval()
    tokens_BS = torch.tensor([[1, 5, 7, 2, 11, 13, 2], [1, 17, 2, 19, 2, PAD, PAD]])
    real_BS = tokens_BS != PAD
    weights = {name: weight.detach() for name, weight in named_weights(model)}
    with torch.inference_mode():
        expected = model(tokens_BS)
        model.encoder = NativeBERT(model.encoder, NativeModel.from_tensors(weights, settings, VOCAB, "fp32"))
        found = model(tokens_BS)
    if expected.shape[:2] == tokens_BS.shape:  # what is computed at padding is not defined
        expected, found = expected[real_BS], found[real_BS]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_a_native_gpt_steps_from_any_state() -> None:
    torch.manual_seed(1)
    settings = GPTSettings(family="gpt", **SIZES)
    gpt = GPT(settings, VOCAB, pad=PAD).eval()
    weights = {name: weight.detach() for name, weight in named_weights(gpt)}
    native = NativeGPT(gpt, NativeModel.from_tensors(weights, settings, VOCAB, "fp32"))
    with torch.inference_mode():
        logits_1V, state = native.read(torch.tensor([[3, 5, 7]]), native.start())
        torch.testing.assert_close(logits_1V, gpt(torch.tensor([[3, 5, 7]]))[:, -1], atol=1e-5, rtol=1e-4)
        for last in (11, 13):  # the same state twice: states are values
            logits_1V, _ = native.step(torch.tensor([last]), state)
            torch.testing.assert_close(logits_1V, gpt(torch.tensor([[3, 5, 7, last]]))[:, -1], atol=1e-5, rtol=1e-4)
