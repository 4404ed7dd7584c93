"""The native library, loaded by ctypes: its structures and functions, as declared in csrc/engine.h
and csrc/training.h.

Nothing heavy is imported here: with the native engine a translation starts in a fraction of a second.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from glassformer.engine import build
from glassformer.files import cache_folder

FP32, INT8 = 0, 1
ACTIVATIONS = {"relu": 0, "gelu": 1, "gelu_tanh": 2, "swish": 3}
POSITIONS = {"none": 0, "sinusoidal": 1, "learned": 2, "rotary": 3}
DISABLE = "GLASSFORMER_NO_ENGINE"  # environment variable: use PyTorch everywhere
NO_MEMORY, BAD_ARGUMENT, NOT_FINITE = -1, -2, -6  # GF_NO_MEMORY …
MAX_TOKENS = 1 << 24  # GF_MAX_TOKENS: of a sentence or an output


class Unavailable(Exception):
    """The native engine cannot be used; the message says why."""


class Unsupported(Unavailable):
    """The native engine does not run this kind of model, or not on this device."""


class _Structure(ctypes.Structure):
    """A structure of 32-bit numbers that refuses larger ones; ctypes would cut them off.

    Raises:
        ValueError: for an integer beyond 32 bits.
    """

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            if isinstance(value, int) and not -(2**31) <= value < 2**31:
                raise ValueError(f"{name}={value} exceeds 32 bits")
        super().__init__(**values)


class Shape(_Structure):
    """`gf_settings`: the shape of a model."""

    _fields_ = (
        *(("vocab", c_int32), ("d_model", c_int32), ("heads", c_int32), ("d_ff", c_int32)),
        *(("encoder_layers", c_int32), ("decoder_layers", c_int32), ("pre_norm", c_int32), ("activation", c_int32)),
        *(("positions", c_int32), ("max_positions", c_int32), ("scaled_embedding", c_int32), ("tied", c_int32)),
        *(("output_bias", c_int32), ("segments", c_int32), ("input_norm", c_int32), ("precision", c_int32)),
        ("norm_epsilon", c_float),
    )


class SearchOptions(_Structure):
    """`gf_search`: how to search."""

    _fields_ = (
        *(("beam", c_int32), ("sos", c_int32), ("eos", c_int32), ("min_length", c_int32)),
        *(("no_repeat_ngram", c_int32), ("length_penalty", c_float), ("temperature", c_float)),
        *(("top_k", c_int32), ("top_p", c_float)),
    )


class Sentence(ctypes.Structure):
    """`gf_sentence`: one sentence to decode."""

    _fields_ = (
        *((name, POINTER(c_int32)) for name in ("source", "prompt", "prefix", "forbidden", "terms")),
        ("rolls", POINTER(c_double)),
        *((name, c_int32) for name in ("source_length", "prompt_length", "prefix_length", "forbidden_count")),
        *(("terms_size", c_int32), ("limit", c_int32)),
    )


class Heads(ctypes.Structure):
    """`gf_heads`: a bf16 tensor, B×H×T×E, with the strides of its first three axes."""

    _fields_ = (("data", c_void_p), ("batch", c_int64), ("head", c_int64), ("row", c_int64))


class AttentionShape(_Structure):
    """`gf_attention_shape`: the sizes, the scale and the mask of an attention layer in training."""

    _fields_ = (
        *(("batch", c_int32), ("heads", c_int32), ("queries", c_int32), ("keys", c_int32), ("size", c_int32)),
        *(("causal", c_int32), ("scale", c_float), ("mask", c_void_p)),
    )


_ints, _floats, _doubles = POINTER(c_int32), POINTER(c_float), POINTER(c_double)
_handle = POINTER(c_void_p)
_heads = POINTER(Heads)

SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "gf_error_text": (c_char_p, [c_int]),
    "gf_instruction_set": (c_char_p, []),
    "gf_instruction_sets": (c_char_p, []),
    "gf_use_instruction_set": (c_int, [c_char_p]),
    "gf_model_new": (c_int, [POINTER(Shape), _handle]),
    "gf_tensor_name": (c_char_p, [c_void_p, c_int]),
    "gf_tensor_size": (c_int64, [c_void_p, c_int]),
    "gf_tensor_rows": (c_int, [c_void_p, c_int]),
    "gf_model_set": (c_int, [c_void_p, c_int, c_void_p]),
    "gf_model_finish": (c_int, [c_void_p]),
    "gf_model_save": (c_int, [c_void_p, c_char_p]),
    "gf_model_open": (c_int, [c_char_p, _handle]),
    "gf_model_settings": (None, [c_void_p, POINTER(Shape)]),
    "gf_model_bytes": (c_size_t, [c_void_p]),
    "gf_model_free": (None, [c_void_p]),
    "gf_worker_new": (c_int, [c_void_p, _handle]),
    "gf_worker_free": (None, [c_void_p]),
    "gf_worker_cancel": (None, [c_void_p]),
    "gf_translate": (
        c_int,
        [
            *(c_void_p, POINTER(SearchOptions), c_int, _ints, _ints, _ints, _doubles, _ints, c_int, c_int),
            *(_ints, _ints, _doubles, _doubles, _ints),
        ],
    ),
    "gf_add": (c_int, [c_void_p, c_int, POINTER(SearchOptions), POINTER(Sentence), _ints]),
    "gf_step": (c_int, [c_void_p, c_int, _ints, _ints]),
    "gf_collect": (c_int, [c_void_p, c_int, c_int, _ints, _ints, _doubles, _doubles, _ints]),
    "gf_remove": (c_int, [c_void_p, c_int]),
    "gf_progress": (c_int, [c_void_p, c_int, c_int, c_int, _ints]),
    "gf_cross_attention": (c_int, [c_void_p, c_int, _ints, c_int, _ints, c_int, c_void_p]),
    "gf_attention": (c_int, [c_void_p, c_int, _ints, c_int, _ints, c_void_p, c_void_p]),
    "gf_encode": (c_int, [c_void_p, c_int, _ints, _ints, _ints, c_void_p]),
    "gf_start": (c_int, [c_void_p, c_int]),
    "gf_read": (c_int, [c_void_p, c_int, _ints, c_void_p]),
    "gf_sample": (c_int, [c_void_p, c_int, c_float, c_int, c_float, c_double, _ints]),
    "gf_test_matmul": (c_int, [c_void_p, c_int, c_int, c_void_p, c_void_p, c_int, c_int, c_void_p]),
    "gf_test_layer_norm": (c_int, [c_void_p, c_int, c_int, c_void_p, c_void_p, c_float, c_void_p]),
    "gf_test_attention": (c_int, [c_void_p, c_void_p, c_void_p, _ints, c_int, c_int, c_void_p]),
    "gf_test_activation": (c_int, [c_int, c_void_p, c_int]),
    "gf_test_log_sum_exp": (c_int, [c_void_p, c_int, c_void_p]),
    "gf_train_attention": (c_int, [POINTER(AttentionShape), *[_heads] * 4]),
    "gf_train_attention_backward": (c_int, [POINTER(AttentionShape), *[_heads] * 7]),
    "gf_train_rotate": (c_int, [*[c_int32] * 4, _heads, c_void_p, c_int32, c_int32, _heads]),
    "gf_train_cross_entropy": (c_int, [c_void_p, c_int64, c_int32, c_void_p, c_void_p, c_float, _doubles]),
    "gf_train_consistency": (c_int, [*[c_void_p] * 2, c_int64, c_int32, *[c_void_p] * 2, c_float, c_float, _doubles]),
    "gf_train_add_dropout": (c_int, [c_void_p, c_void_p, c_void_p, c_int64, c_int32, c_float, c_void_p]),
    "gf_train_add_dropout_backward": (c_int, [c_void_p, c_void_p, c_int64, c_int32, c_float, c_void_p]),
    "gf_train_layer_norm": (c_int, [c_void_p, c_int64, c_int32, c_void_p, c_void_p, c_float, c_void_p, c_void_p]),
    "gf_train_layer_norm_backward": (c_int, [*[c_void_p] * 3, c_int64, c_int32, *[c_void_p] * 4]),
}


_loading = threading.RLock()  # reentrant: the garbage collector may free a model, which calls `library`, meanwhile


@cache
def library() -> ctypes.CDLL:
    """Return the loaded library; it is compiled into the cache folder if the package does not contain it.

    Raises:
        Unavailable: without a library and a C compiler, or if the engine is disabled.
    """
    if os.environ.get(DISABLE):
        raise Unavailable(f"{DISABLE} is set")
    with _loading:  # `cache` does not lock: two threads would compile the library
        return _find_library()


def load_library(path: Path) -> ctypes.CDLL:
    """Load a library and declare the types of its functions."""
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise Unavailable(f"the native library could not be loaded: {error}") from None
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def _find_library() -> ctypes.CDLL:
    """Load the library of the package or of the cache folder; compile it if neither can be loaded."""
    name = build.library_name()
    packaged = Path(__file__).parent / name
    if packaged.exists():
        with contextlib.suppress(Unavailable):  # linked with libraries that this system does not have
            return load_library(packaged)
    try:
        cached = cache_folder() / "engine" / name
    except RuntimeError as error:  # HOME is not set and the system does not know the user
        raise Unavailable(f"the native library has no cache folder: {error} Hint: set XDG_CACHE_HOME") from None
    useless = cached.with_suffix(".useless")
    if cached.exists():
        try:
            return load_library(cached)
        except Unavailable:
            if useless.exists():
                raise
    try:
        build.compile_library(cached)
    except (build.CompilerError, OSError) as error:
        raise Unavailable(f"the native library could not be compiled: {error}") from None
    try:
        return load_library(cached)
    except Unavailable:
        # The cache folder may be mounted with noexec: do not compile the library again at every start.
        with contextlib.suppress(OSError):  # then it is compiled again after all
            useless.touch()
        raise


def check(code: int) -> None:
    """Raise an exception if a function of the library returned an error code."""
    if code == NO_MEMORY:
        raise MemoryError("out of memory")
    if code == NOT_FINITE:
        raise FloatingPointError(library().gf_error_text(code).decode())
    if code < 0:
        raise ValueError(library().gf_error_text(code).decode())
