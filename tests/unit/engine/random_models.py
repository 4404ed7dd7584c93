"""Models of the native engine with random weights, built without PyTorch: child processes start in no time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.engine import library as engine_library
from glassformer.engine import model as engine_model
from glassformer.engine import session as engine_session
from glassformer.engine.library import SearchOptions, Shape, check
from glassformer.engine.model import NativeModel

SOS, EOS = 1, 2
TRANSFORMER: dict[str, Any] = {
    "vocab": 19, "d_model": 6, "heads": 2, "d_ff": 11, "encoder_layers": 1, "decoder_layers": 1, "positions": 1,
    "scaled_embedding": 1, "tied": 1, "norm_epsilon": 1e-5,
}  # fmt: skip
GPT: dict[str, Any] = {
    "vocab": 19, "d_model": 6, "heads": 3, "d_ff": 11, "decoder_layers": 1, "pre_norm": 1, "activation": 2,
    "positions": 2, "max_positions": 23, "output_bias": 1, "norm_epsilon": 1e-5,
}  # fmt: skip
BERT: dict[str, Any] = {
    "vocab": 19, "d_model": 6, "heads": 2, "d_ff": 11, "encoder_layers": 1, "activation": 1, "positions": 2,
    "max_positions": 13, "segments": 3, "input_norm": 1, "norm_epsilon": 1e-3,
}  # fmt: skip


def use(path: str) -> ctypes.CDLL:
    """Make a library the one that NativeModel and Worker call."""
    loaded = engine_library.load_library(Path(path))
    engine_library.library = engine_model.library = engine_session.library = lambda: loaded  # type: ignore[assignment]
    return loaded


def random_model(shape: dict[str, Any], *, seed: int = 0, scale: float = 1.0) -> NativeModel:
    """Return a model of this shape with normally distributed weights."""
    native, handle, random = engine_model.library(), c_void_p(), np.random.default_rng(seed)
    check(native.gf_model_new(byref(Shape(**shape)), byref(handle)))
    model, index = NativeModel(handle), 0
    while native.gf_tensor_name(handle, index):
        values = (scale * random.standard_normal(native.gf_tensor_size(handle, index))).astype(np.float32)
        check(native.gf_model_set(handle, index, values.ctypes.data))
        index += 1
    check(native.gf_model_finish(handle))
    return model


def options(**over: Any) -> SearchOptions:
    """How to search: greedy, unless told otherwise."""
    given = {"beam": 1, "sos": SOS, "eos": EOS, "length_penalty": 0.6, "temperature": 1.0, "top_p": 1.0} | over
    return SearchOptions(**given)


def each_set(native: ctypes.CDLL, run: Callable[[str], Any]) -> dict[str, Any]:
    """Return the result of a function for every instruction set."""
    results = {}
    for name in native.gf_instruction_sets().decode().split():
        check(native.gf_use_instruction_set(name.encode()))
        results[name] = run(name)
    return results
