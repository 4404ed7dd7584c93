"""`WeightFile`: safetensors without PyTorch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer.engine.safetensors import WeightFile
from glassformer.errors import UserError


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_weight_file_reads_what_safetensors_reads(tmp_path: Path, dtype: torch.dtype) -> None:
    extremes = torch.tensor([0.0, -0.0, 1e-7, -65504.0, 3.25, 1e-40]).to(dtype)
    save_file(
        {"a": torch.randn(3, 5, 7).to(dtype), "b.c": extremes, "empty": torch.empty(0, 5).to(dtype)}, tmp_path / "w"
    )
    file, expected = WeightFile(tmp_path / "w"), load_file(tmp_path / "w")
    assert file.shapes == {name: tuple(tensor.shape) for name, tensor in expected.items()}
    for name, tensor in expected.items():
        for _ in range(2):  # pages that were given back are read again
            found = np.array(file.floats(name), dtype=np.float32)
            assert np.array_equal(found, tensor.float().flatten().numpy())
            assert np.array_equal(np.signbit(found), np.signbit(tensor.float().flatten().numpy()))
            file.release()


def written(path: Path, header: Any, data: bytes = b"\0" * 24, *, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(**over: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} | over}


def test_weight_file_reads_unaligned_float32(tmp_path: Path) -> None:
    """A header of any length is valid; the C code needs aligned floats."""
    data = np.arange(6, dtype="<f4").tobytes()
    for spaces in range(4):
        file = WeightFile(written(tmp_path / "w", json.dumps(entry()).encode() + b" " * spaces, data))
        assert list(file.floats("a")) == [0, 1, 2, 3, 4, 5]


DAMAGED = {
    "empty": (b"", b""),
    "a list": ([1, 2],),
    "a number": (7,),
    "not JSON": (b"{'a': 1}",),
    "not UTF-8": (b'{"\xff": 1}',),
    "nested deeply": (b"[" * 100_000 + b"]" * 100_000,),
    "an entry that is not an object": ({"a": [0, 24]},),
    "no type": ({"a": {"shape": [2, 3], "data_offsets": [0, 24]}},),
    "a type that is not supported": (entry(dtype="I32"),),
    "an empty tensor of a type that is not supported": (entry(dtype="I64", shape=[0], data_offsets=[0, 0]),),
    "a type that is not text": (entry(dtype=["F32"]),),
    "a shape that does not fit": (entry(shape=[2, 5]),),
    "a negative shape": (entry(shape=[-2, -3]),),
    "a shape that is not whole": (entry(shape=[2.0, 3.0]),),
    "very many dimensions": (entry(shape=[1] * 7 + [2, 3]),),
    "a shape of text": (entry(shape="6"),),
    "offsets beyond the file": (entry(data_offsets=[4, 28]),),
    "negative offsets": (entry(data_offsets=[-8, 16]),),
    "offsets the wrong way": (entry(data_offsets=[24, 0]),),
    "one offset": (entry(data_offsets=[24]),),
    "offsets that are missing": ({"a": {"dtype": "F32", "shape": [6]}},),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_weight_file_refuses_a_damaged_header(tmp_path: Path, damage: str) -> None:
    with pytest.raises(UserError, match="damaged"):
        WeightFile(written(tmp_path / "w", *DAMAGED[damage]))


@pytest.mark.parametrize("length", [0, 10_000, 2**63, 2**64 - 1])
def test_weight_file_refuses_a_header_length_beyond_the_file(tmp_path: Path, length: int) -> None:
    with pytest.raises(UserError, match="damaged"):
        WeightFile(written(tmp_path / "w", entry(), length=length))


def test_weight_file_refuses_a_file_that_was_cut_off(tmp_path: Path) -> None:
    whole = written(tmp_path / "w", entry()).read_bytes()
    for size in range(len(whole)):
        (tmp_path / "w").write_bytes(whole[:size])
        with pytest.raises(UserError, match="damaged"):
            WeightFile(tmp_path / "w")
