"""Run by a test in a child process: AMX, emulated, gives the same products as portable C, bit for bit."""

from __future__ import annotations

import sys

import numpy as np

from glassformer.engine.library import INT8
from tests.unit.engine.operations import extreme, matmul, normal
from tests.unit.engine.random_models import each_set, use

native = use(sys.argv[1])
names = native.gf_instruction_sets().decode().split()
if "amx_int8" not in names:
    print("no AVX-512")  # which the emulation is built on
    raise SystemExit
compared = 0
# Rows below and above what tiles are used for, one and two tiles of rows; odd and even numbers of panels.
for rows in (1, 3, 4, 5, 15, 16, 17, 31, 32, 33, 67):
    for inputs, outputs in ((1, 1), (63, 16), (64, 17), (65, 33), (131, 47), (7, 64)):
        for x, weight in (extreme(rows, outputs, inputs), (normal(rows, inputs), normal(outputs, inputs, seed=1))):
            bias = normal(outputs, seed=2)
            found = each_set(native, lambda _: matmul(native, x, weight, bias, INT8))  # noqa: B023
            assert np.array_equal(found["amx_int8"], found["scalar"]), (rows, inputs, outputs)
            compared += 1
print(f"{compared} products")
