"""gf_attention: the attention weights of every head and the logits are those that PyTorch computes."""

from __future__ import annotations

import ctypes
from ctypes import c_float
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.engine.library import check
from glassformer.engine.model import NativeModel, Worker, int_array
from glassformer.glass.trace import trace_teacher_forced
from glassformer.inference.run_folder import RunFolder, load_settings
from glassformer.inference.translator import load_translator
from tests.unit.engine.random_models import BERT, GPT, random_model

FROZEN = Path(__file__).parents[2] / "compat" / "runs" / "format-1"
SOURCE, TARGET = [7, 11, 13, 2], [1, 17, 19, 23, 29]


def attention(native: ctypes.CDLL, model: NativeModel, source: list[int], target: list[int]) -> tuple[Any, Any]:
    """Return the weights, one after the other, and the logits, target × vocab."""
    shape, S, T = model.shape, len(source), len(target)
    size = shape.encoder_layers * S * S + shape.decoder_layers * (T * (T + 1) // 2 + T * S)
    weights, logits = (c_float * (shape.heads * size))(), (c_float * (T * shape.vocab))()
    worker = Worker(model)
    check(native.gf_attention(worker._handle, S, int_array(source), T, int_array(target), weights, logits))
    return np.array(weights), np.array(logits).reshape(T, shape.vocab)


def test_weights_and_logits_are_those_of_the_trace(native: ctypes.CDLL) -> None:
    translator = load_translator(FROZEN, engine="torch")
    trace = trace_teacher_forced(translator.model, translator.tokenizer.pieces, SOURCE, TARGET)
    folder = RunFolder(FROZEN)
    model = NativeModel.load(folder.model, load_settings(folder).model, len(translator.tokenizer), "fp32")
    weights, logits = attention(native, model, SOURCE, TARGET)
    expected = [trace[f"encoder.{i}.self.weights"].transpose(0, 1).flatten() for i in range(2)]
    for i in range(2):
        for row, of_row in enumerate(trace[f"decoder.{i}.self.weights"].transpose(0, 1)):
            expected.append(of_row[:, : row + 1].flatten())
        expected.append(trace[f"decoder.{i}.cross.weights"].transpose(0, 1).flatten())
    np.testing.assert_allclose(weights, np.concatenate(expected), atol=1e-5)
    np.testing.assert_allclose(logits, trace["logits"], atol=1e-3)


def test_models_with_one_stack_and_wrong_inputs(native: ctypes.CDLL) -> None:
    gpt, bert = random_model(GPT), random_model(BERT)
    weights, logits = attention(native, gpt, [], [3, 5, 7])
    assert weights.sum() == pytest.approx(GPT["heads"] * 3, rel=1e-5)  # each row of each head sums to 1
    reader = Worker(gpt)
    reader.start(3)
    np.testing.assert_allclose(logits[-1], np.array(reader.read([3, 5, 7])), rtol=1e-5, atol=1e-5)
    assert attention(native, bert, [3, 5], [])[0].reshape(-1, 2).sum(axis=1) == pytest.approx(1)
    for model, source, target in ((gpt, [3], [5]), (gpt, [], []), (bert, [3], [5]), (bert, [], [])):
        with pytest.raises(ValueError, match="argument"):
            attention(native, model, source, target)
