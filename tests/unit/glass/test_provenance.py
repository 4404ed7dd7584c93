"""Every tensor of every family is recomputed from its operands, as a whole, entry by entry, and as a NumPy program."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from glassformer.glass.trace import Trace
from glassformer.inference.run import weights_of
from glassformer.nn.probe import ProvenanceError, Recorder
from glassformer.reference import attention, embeddings, layers, recurrent
from glassformer.reference.operation import Operation
from tests.families import CASES, QUESTION_AND_TEXT, build, teacher_forced, traced

# A rounding error of fp32 in values of this size, and no more.
CLOSE = {"atol": 2e-5, "rtol": 1e-5}
INPUTS = {"encoder.tokens", "decoder.tokens", "encoder.segments", "encoder.pixels"}


def check_tensors(found: Trace) -> None:
    """Compare every tensor with what its operation computes from its operands."""
    for name, tensor in found.tensors.items():
        again = found.recompute(name)
        if again is None:
            assert name in INPUTS
            continue
        again_tensor = torch.tensor(again).to(tensor.dtype).expand(tensor.shape)
        torch.testing.assert_close(again_tensor, tensor, **CLOSE, msg=lambda text, name=name: f"{name}: {text}")


def check_entries(found: Trace) -> None:
    """Compare entries of every tensor with what is computed from the operand entries that they depend on."""
    random = np.random.default_rng(1)
    for name, tensor in found.tensors.items():
        if found.is_input(name):
            continue
        some = [tuple(int(random.integers(size)) for size in tensor.shape) for _ in range(3)]
        for at in [*some, (0,) * tensor.dim(), tuple(size - 1 for size in tensor.shape)]:
            entry, picked, value = found.entry(name, at)
            assert all(np.asarray(values).size for values in picked.values()), f"{name}{list(at)}"
            assert np.allclose(value, tensor[at].item(), **CLOSE), f"{name}{list(at)}: {entry.formula}"


@pytest.mark.parametrize("name", CASES)
def test_tensors_and_entries_follow_from_their_operands(name: str) -> None:
    model = build(name)
    found = traced(name, model)
    check_tensors(found)
    check_entries(found)
    _check_result(name, model, found)


def _check_result(name: str, model: Any, found: Trace) -> None:
    """The explicit pass that is traced gives what the ordinary pass gives."""
    with torch.inference_mode():
        if found.target and found.source:
            expected = model(found["encoder.tokens"][None], found["decoder.tokens"][None])[0]
        elif "encoder.pixels" in found.tensors:
            expected = model(found["encoder.pixels"][None])[0]
        else:
            expected = model(torch.tensor([QUESTION_AND_TEXT]))[0]
    if name != "no look-ahead mask, free running":  # which sees the future only in teacher forcing
        torch.testing.assert_close(list(found.tensors.values())[-1], expected, **CLOSE)


@pytest.mark.parametrize("change", ["decoder.1.cross.weights", "encoder.0.ff.activations", "decoder.2.self.norm"])
def test_a_wrong_value_is_found(change: str) -> None:
    found = traced("post-norm")
    found.tensors[change] = found.tensors[change].clone()
    found.tensors[change].flatten()[3] += 1e-3
    with pytest.raises(AssertionError):
        check_tensors(found)


def test_every_operation_is_used() -> None:
    used = {made.operation.formula for name in CASES for made in traced(name).graph.values()}
    rooms: list[ModuleType] = [attention, embeddings, layers, recurrent]
    every = {value.formula for room in rooms for value in vars(room).values() if isinstance(value, Operation)}
    # Interventions are not part of these traces; `linear` is the base of several operations.
    assert every - used == {embeddings.intervened.formula, layers.linear.formula} - used


@pytest.mark.parametrize(
    "name",
    ["pre-norm", "lstm, additive, bidirectional", "gru, general, unidirectional", "gpt", "bert", "elmo", "vit",
     "window", "recurrent question answering", "bert question answering", "sentence embedding"],
)  # fmt: skip
def test_a_tensor_as_a_numpy_program(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program runs without PyTorch and Glassformer, and gives the same values."""
    monkeypatch.chdir(tmp_path)
    model = build(name)
    found = traced(name, model)
    np.savez(tmp_path / "trace.npz", **{name: tensor.numpy() for name, tensor in found.tensors.items()})
    save_file({name: weight.contiguous() for name, weight in weights_of(model).items()}, tmp_path / "model.safetensors")
    for tensor_name, tensor in found.tensors.items():
        program = found.numpy_code(tensor_name)
        if program is None:
            continue
        assert "torch" not in program and "Array" not in program and "glassformer" not in program
        space: dict[str, Any] = {}
        exec(program, space)
        space["trace"].close()
        result: Tensor = torch.tensor(space["result"]).to(tensor.dtype)
        torch.testing.assert_close(result.expand(tensor.shape), tensor, **CLOSE)


def test_a_tensor_without_provenance_is_an_error() -> None:
    model = build("post-norm")
    recorder = Recorder(model=model)
    with pytest.raises(ProvenanceError, match=r"encoder\.surprise"):
        recorder.at("encoder")("surprise", torch.ones(3))
    with pytest.raises(ProvenanceError, match="operand x of y"):
        recorder("y", torch.ones(3), layers.pooler, torch.ones(3))


def test_provenance_names_operation_operands_and_weights() -> None:
    found = teacher_forced(build("post-norm"))
    made = found.provenance("encoder.0.self.scores")
    assert made.operation is attention.dot_products
    assert made.tensors == {"query": "encoder.0.self.query", "key": "encoder.0.self.key"}
    key = found.provenance("encoder.0.self.key")
    assert key.tensors == {"x": "encoder.input"} and key.constants == {"heads": 3}
    assert str(key.weights["weight"]) == 'model["encoder.0.self_attention.query_key_value.weight"][21:42]'
    assert found.provenance("decoder.1.cross.value").tensors == {"x": "encoder.memory"}
    assert found.provenance("decoder.0.self.residual").tensors == {"x": "decoder.input", "y": "decoder.0.self.output"}
