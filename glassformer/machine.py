"""What this machine can do, and what is safe on it.

Many virtual machines show processor features that the hypervisor then takes away: there, a bf16 matmul ends the
process (SIGILL, because CPUID leaf 0x1D is empty and the tile registers stay unconfigured). No flag tells. So it
is tried once, in a child process that may die, and the answer is kept.

Likewise, no CPU flag tells whether the 8-bit matrix product of PyTorch saturates: that depends on the instructions
that its library selects. One small product shows it.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import platform
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import torch

from glassformer.errors import Message, UserError
from glassformer.files import cache_folder, write_text

# Prints how many times faster a bf16 matmul is than a fp32 one. Dies where bf16 is not safe.
TRIAL = """
import time, torch
def seconds(dtype):
    a, b = torch.ones(1024, 512, dtype=dtype), torch.ones(512, 2048, dtype=dtype)
    a @ b
    return min(timed(a, b) for _ in range(5))
def timed(a, b):
    began = time.perf_counter()
    a @ b
    return time.perf_counter() - began
print(seconds(torch.float32) / seconds(torch.bfloat16))
"""
M_MMAP_THRESHOLD = -3  # of mallopt(3)
WORTH_IT = 1.5  # times faster: below, the coarser numbers are not worth it


def device() -> str:
    """A GPU if there is one; of several, the one with this process's number on its machine."""
    if not torch.cuda.is_available():
        return "cpu"
    number = int(os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or 0)
    return f"cuda:{number % torch.cuda.device_count()}"


def fastest_safe_precision() -> tuple[str, str]:
    """The training precision for `auto`, with the reason."""
    if device() != "cpu":
        if gpu_has_bf16():
            return "bf16", "this GPU computes in bf16"
        return "fp32", "this GPU has no bf16 units"
    speed = bf16_speed()
    if speed is None:
        return "fp32", "a trial bf16 matmul failed on this CPU"
    if speed < 1:
        return "fp32", Message("bf16 has {speed} times the speed of fp32 on this CPU", speed=f"{speed:.2f}")
    if speed < WORTH_IT:
        return "fp32", Message("bf16 has {speed} times the speed of fp32 on this CPU", speed=f"{speed:.1f}")
    return "bf16", Message("bf16 has {speed} times the speed of fp32 on this CPU", speed=f"{speed:.1f}")


def gpu_has_bf16() -> bool:
    """Return whether the GPU computes in bf16 itself (NVIDIA: Ampere or later).

    Older GPUs emulate it, which is slower than fp32.
    """
    return torch.cuda.is_bf16_supported(including_emulation=False)


def bf16_is_safe() -> bool:
    """Return whether bf16 gives results at all; on a GPU without bf16 units it is only slow."""
    return device() != "cpu" or bf16_speed() is not None


def bf16_speed(cache: Path | None = None) -> float | None:
    """How many times faster bf16 is than fp32 on this CPU; None where it is not safe. Tried once, then remembered."""
    cache = cache or cache_folder() / "machine.json"
    known = _read(cache)
    machine = f"{_fingerprint()}; torch {torch.__version__}"
    if machine not in known:
        known[machine] = _try(TRIAL)
        try:
            write_text(cache, json.dumps(known, indent=1))
        except UserError:  # a home that cannot be written to: it is tried again next time
            return known[machine]
    return known[machine]


@cache
def int8_weight_limit() -> int:
    """Return the largest magnitude of an int8 weight with which the 8-bit products of this machine are exact.

    The kernel multiplies uint8 activations by int8 weights. Without VNNI, it adds each pair of neighbouring products
    in 16 bits with saturation (`vpmaddubsw`). The sum 2 · 255 · 127 does not fit; 2 · 255 · 64 = 32,640 does.
    """
    inputs = 16
    with warnings.catch_warnings():  # PyTorch has deprecated quantized tensors; see `nn.linear.quantize_rows`
        warnings.simplefilter("ignore")
        weight = torch.quantize_per_tensor(torch.full((1, inputs), 127.0), 1.0, 0, torch.qint8)
    block = torch.ops.quantized.linear_prepack(weight, None)
    product = torch.ops.quantized.linear_dynamic(torch.full((1, inputs), 255.0), block, False).item()
    return 127 if product > 0.9 * inputs * 255 * 127 else 64


def give_back_memory() -> None:
    """Returns memory that nothing uses to the system, where the C library would keep it."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # not glibc, not Linux, not Unix
        ctypes.CDLL(None).malloc_trim(0)


def return_large_blocks() -> None:
    """Make the C library return every freed block of 128 KiB or more to the system at once.

    By default glibc raises this limit to 32 MiB as such blocks are freed, and then keeps them in a heap that fragments.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # not glibc, not Linux, not Unix
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 128 * 1024)


def _try(program: str) -> float | None:
    try:
        child = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
        )
        return float(child.stdout) if child.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):  # no process, no number, no end: the trial has failed
        return None


def _read(cache: Path) -> dict[str, float | None]:
    try:
        known = json.loads(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not written yet, or damaged: the machine is tried again
        return {}
    return known if isinstance(known, dict) else {}


def processor() -> str:
    """Its name, as it calls itself."""
    return " ".join(_told_by_processor().get("model name", "").split()) or platform.processor() or platform.machine()


def _fingerprint() -> str:
    """Name and features, so that a cache that travels with a home folder is not believed elsewhere."""
    features = hashlib.blake2b(_told_by_processor().get("flags", "").encode(), digest_size=4).hexdigest()
    return f"{processor()} ({features})"


def _told_by_processor() -> dict[str, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # only Linux tells
        return {}
    return {line.split(":")[0].strip(): line.split(":", 1)[1].strip() for line in lines if ":" in line}
