"""Limits of this machine with PyTorch: large matrix products and memory bandwidth."""

from __future__ import annotations

import time
import warnings

import torch

SECONDS = 0.4  # each figure is the best of the repetitions within it: a limit, not a mean


def measure(threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    weights, memory = torch.ones(58 * 2**20 // 4), torch.ones(2**30 // 4)  # the weights of a small model; a gigabyte
    return {
        "fp32_gflops": max(_matmul(m, 2048, n) for m, n in ((4096, 512), (2048, 2048), (1024, 1536))),
        "int8_gops": max(_int8(m, 512, n) for m, n in ((4096, 2048), (2048, 1536), (512, 2048))),
        "weights_read_again_gb": 58 * 2**20 / _best(weights.sum) / 1e9,
        "memory_read_gb": 2**30 / _best(memory.sum) / 1e9,
    }


def _matmul(m: int, k: int, n: int) -> float:
    a, b = torch.randn(m, k), torch.randn(k, n)
    return 2 * m * k * n / _best(lambda: a @ b) / 1e9


def _int8(m: int, k: int, n: int) -> float:
    warnings.simplefilter("ignore")
    weight = torch.quantize_per_channel(
        torch.randn(n, k), torch.full((n,), 0.02), torch.zeros(n, dtype=torch.long), 0, torch.qint8
    )
    packed, x = torch.ops.quantized.linear_prepack(weight, torch.zeros(n)), torch.randn(m, k)
    return 2 * m * k * n / _best(lambda: torch.ops.quantized.linear_dynamic(x, packed)) / 1e9


def _best(work) -> float:
    work()
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def version() -> str:
    return f"torch {torch.__version__}"
