"""Run by a test in a child process: calls of odd sizes and with numbers that are not finite, no memory error."""

from __future__ import annotations

import itertools
import sys
from contextlib import suppress
from ctypes import byref, c_int32, c_void_p
from typing import Any

from glassformer.engine.library import BAD_ARGUMENT, INT8, Shape
from glassformer.engine.model import NativeModel, Worker
from tests.unit.engine.random_models import BERT, GPT, TRANSFORMER, each_set, options, random_model, use

native = use(sys.argv[1])


def refused(call: Any, *arguments: Any, **named: Any) -> None:
    try:
        call(*arguments, **named)
    except (ValueError, MemoryError):
        return
    raise AssertionError(f"{call.__name__}{arguments}{named} was not refused")


def translate(model: NativeModel, **over: Any) -> None:
    worker = Worker(model)
    sources, limits = [[3, 4, 2], [5, 2], [18] * 11 + [2], [2]], [7, 1, 13, 3]
    worker.translate(sources, options(**over), limits)
    worker.translate(sources[1:], options(no_repeat_ngram=1, min_length=5, **over), limits[1:], shortlist=[2, 5, 18])
    worker.translate(sources[:1], options(no_repeat_ngram=2, **over), limits[:1], shortlist=[7])  # without <eos>
    if over["beam"] == 1:
        with suppress(ValueError, FloatingPointError):  # logits are not finite: nothing to draw from
            worker.translate(sources, options(top_k=3, top_p=0.5), limits, rolls=[[0.7] * 13] * 4)


def every_call() -> None:
    """Models of every activation and precision; scales at which activations overflow, become NaN, or vanish."""
    sets = itertools.cycle(native.gf_instruction_sets().split())
    for precision, scale, activation in itertools.product((0, INT8), (1.0, 1e12, 1e30, 1e-38), range(4)):
        if activation == 0:
            next(sets)  # another one for each activation than at the scale before
        native.gf_use_instruction_set(next(sets))
        both = {"precision": precision, "activation": activation}
        pre = {"pre_norm": 1, "tied": 0, "output_bias": 1, "positions": activation % 3, "max_positions": 13}
        for shape in (TRANSFORMER | both, TRANSFORMER | pre | both):
            model = random_model(shape, scale=scale)
            translate(model, beam=1)
            translate(model, beam=3)
            Worker(model).encode([[3, 4, 5], [6]])
        gpt = Worker(random_model(GPT | both, scale=scale))
        gpt.start(11)
        gpt.read([3, 4, 5, 6, 7, 8, 9])
        gpt.read([3])
        Worker(random_model(BERT | both, scale=scale)).encode([[3, 4, 5], [6]], [[0, 2, 1], [1]])


def long_outputs() -> None:
    """The cache grows with the outputs, and a high limit alone takes no memory: see LARGEST_ALLOCATION."""
    model = random_model(TRANSFORMER, scale=0.3)
    for beam in (1, 3):
        Worker(model).translate([[3, 2], [4, 2], [5, 6, 2]], options(beam=beam, min_length=400), [131, 7, 301])
    reader = Worker(random_model(GPT | {"max_positions": 601}))
    reader.start(601)
    for count in (127, 2, 1, 300, 171):
        reader.read([3] * count)
    wide = random_model(TRANSFORMER | {"d_model": 128, "decoder_layers": 3}, scale=0)
    for beam in (1, 2):
        Worker(wide).translate([[3, 2]] * 32, options(beam=beam, eos=0), [10_000] * 32)


def invalid_arguments() -> None:
    translator, reader, encoder = (Worker(random_model(shape)) for shape in (TRANSFORMER, GPT, BERT))
    one = ([[3, 2]], options(), [5])
    refused(translator.translate, [[19, 2]], *one[1:])
    refused(translator.translate, [[-1, 2]], *one[1:])
    refused(translator.translate, [[]], *one[1:])
    refused(translator.translate, [[3, 2], [3, 2]], *one[1:])  # one limit for two sentences
    refused(translator.translate, *one[:2], [0])
    refused(translator.translate, one[0], options(beam=0), [5])
    refused(translator.translate, one[0], options(beam=65), [5])
    refused(translator.translate, one[0], options(beam=2), [5], rolls=[[0.5] * 5])
    refused(translator.translate, one[0], options(sos=19), [5])
    refused(translator.translate, one[0], options(no_repeat_ngram=-1), [5])
    refused(translator.translate, *one, shortlist=[3, 3])
    refused(translator.translate, *one, shortlist=[3, 19])
    refused(translator.translate, *one, rolls=[[0.5]])  # fewer than the limit
    refused(reader.translate, *one)
    refused(encoder.translate, *one)
    refused(reader.encode, [[3]])
    refused(encoder.encode, [[3] * 14])  # beyond the learned positions
    refused(encoder.encode, [[3, 4]], [[0, 3]])
    refused(encoder.encode, [[3, 4]], [[0, -1]])
    refused(encoder.encode, [[3, 4]], [[0]])
    refused(translator.start, 5)
    refused(reader.read, [3])  # before the start
    refused(reader.start, 0)
    reader.start(5)
    refused(reader.read, [3] * 6)
    refused(reader.read, [19])
    reader.read([3] * 5)
    refused(reader.read, [3])
    # A limit so high that rows · beam would overflow 32 bits.
    lengths, token = (c_int32 * 1)(1), (c_int32 * 1)(3)
    high = (c_int32 * 1)(2**31 - 1)
    outputs = [None] * 5
    handle, search = translator._handle, options(beam=64)
    assert native.gf_translate(handle, byref(search), 1, token, lengths, high, None, None, 0, high[0], *outputs) < 0
    # Lengths whose sum would overflow 32 bits, and a negative size.
    two, limits, many = (c_int32 * 2)(3, 3), (c_int32 * 2)(5, 5), (c_int32 * 2)(2**31 - 1, 2**31 - 1)
    search = options()
    assert native.gf_translate(handle, byref(search), 2, two, many, limits, None, None, 0, 5, *outputs) == BAD_ARGUMENT
    assert native.gf_encode(handle, 2, two, many, None, None) == BAD_ARGUMENT
    assert native.gf_translate(handle, byref(search), 1, token, lengths, limits, None, None, -1, 5, *outputs) == (
        BAD_ARGUMENT
    )
    for wrong in ({"heads": 4}, {"vocab": 0}, {"d_ff": 1 << 24}, {"norm_epsilon": float("nan")}, {"activation": 4}):
        assert native.gf_model_new(byref(Shape(**(TRANSFORMER | wrong))), byref(c_void_p())) < 0, wrong


invalid_arguments()
long_outputs()
# Head sizes with vector code of their own.
for d_model, heads in ((64, 1), (64, 2), (64, 4)):
    for precision in (0, INT8):
        shape = TRANSFORMER | {"d_model": d_model, "heads": heads, "d_ff": 131, "vocab": 67, "precision": precision}
        each_set(native, lambda _: translate(random_model(shape), beam=2))  # noqa: B023
every_call()
print("no error")
