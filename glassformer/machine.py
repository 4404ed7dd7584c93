"""The device of this machine, and which precisions work on it. PyTorch is imported where it is needed.

Many virtual machines report CPU features that the hypervisor disables. There a bf16 matmul kills the process (SIGILL:
CPUID leaf 0x1D is empty and the tile registers stay unconfigured), and no CPU flag shows it. So a bf16 matmul is tried
once, in a child process, and the result is cached.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from glassformer.errors import Message, UserError
from glassformer.files import cache_folder, write_text
from glassformer.operating_system import cpu_info, cpu_name

# Prints the speed of a bf16 matmul relative to fp32. The process is killed if bf16 does not work.
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
SPIN_COUNT = "100"  # iterations; the default of libgomp is 300,000. Measured: docs/results/engine.md
KERNEL_CACHE_CAPACITY = "16"
MIN_SPEEDUP = 1.5  # bf16 is chosen only above this factor, because it is less precise


def device() -> str:
    """Return the device to compute on: "cuda:N", "mps" (Apple GPU) or "cpu".

    Of several CUDA devices, each process on a machine takes another one. Distributed training has no backend for MPS,
    so it computes on the CPU there. The environment variable GLASSFORMER_DEVICE=cpu disables all GPUs.
    """
    if os.environ.get("GLASSFORMER_DEVICE") == "cpu":
        return "cpu"
    import torch

    if torch.cuda.is_available():
        number = int(os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or 0)
        return f"cuda:{number % torch.cuda.device_count()}"
    if torch.backends.mps.is_available() and int(os.environ.get("WORLD_SIZE", 1)) == 1:
        return "mps"
    return "cpu"


def may_have_gpu() -> bool:
    """Return whether `device()` may find a GPU; a quick look that does not import PyTorch."""
    if os.environ.get("GLASSFORMER_DEVICE") == "cpu":
        return False
    drivers = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # NVIDIA, AMD, both under WSL
    return sys.platform != "linux" or any(map(os.path.exists, drivers))


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fastest_safe_precision() -> tuple[str, str]:
    """Return the training precision for `train.precision=auto`, and the reason."""
    if device() == "mps":
        return "fp32", "bf16 is not used on Apple GPUs"
    if device() != "cpu":
        if gpu_has_bf16():
            return "bf16", "this GPU supports bf16"
        return "fp32", "this GPU does not support bf16 in hardware"
    speed = bf16_speed()
    if speed is None:
        return "fp32", "a trial bf16 matmul failed on this CPU"
    if speed < 1:
        text = Message("a trial bf16 matmul had {speed} times the speed of fp32 on this CPU", speed=f"{speed:.2f}")
        return "fp32", text
    factor = f"{speed:.1f}"
    if speed < MIN_SPEEDUP:
        return "fp32", Message("a trial bf16 matmul was only {n} times as fast as fp32 on this CPU", n=factor)
    return "bf16", Message("a trial bf16 matmul was {n} times as fast as fp32 on this CPU", n=factor)


def gpu_has_bf16() -> bool:
    """Return whether the GPU computes in bf16 itself (NVIDIA: Ampere or later).

    Older GPUs emulate it, which is slower than fp32.
    """
    import torch

    return torch.cuda.is_bf16_supported(including_emulation=False)


def bf16_works() -> bool:
    """Return whether bf16 works; on a GPU without hardware support it works, but slowly."""
    return device() != "cpu" or bf16_speed() is not None


def bf16_speed(cache: Path | None = None) -> float | None:
    """Return the speed of bf16 relative to fp32 on this CPU, or None if bf16 does not work. The result is cached."""
    import torch

    cache = cache or cache_folder() / "machine.json"
    known = _read(cache)
    machine = f"{_fingerprint()}; torch {torch.__version__}"
    if machine not in known:
        known[machine] = _try(TRIAL)
        try:
            write_text(cache, json.dumps(known, indent=1))
        except UserError:  # the cache is not writable: measure again next time
            return known[machine]
    return known[machine]


def limit_spinning() -> None:
    """Let the threads of PyTorch sleep soon when they wait for each other. Call this before PyTorch is imported.

    By default they spin for milliseconds. Next to another busy process, that takes the CPU from the thread that they
    wait for. Settings of the user (OMP_WAIT_POLICY, GOMP_SPINCOUNT) are kept.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)


def limit_kernel_caches() -> None:
    """Let oneDNN keep few compiled kernels. Call this before PyTorch is imported.

    In bf16, oneDNN compiles a kernel for every shape of a matrix product and keeps 1,024 of them, of some megabytes
    each. Batches have hundreds of shapes, so a training of 1,000 steps grew from 0.6 to 5.5 GB. With 16 kernels the
    training is as fast, and its memory is bounded. Settings of the user are kept.
    """
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):  # of oneDNN, and of PyTorch's wrapper
        os.environ.setdefault(variable, KERNEL_CACHE_CAPACITY)


def seconds_waited_for_cpu() -> float:
    """Return how long the main thread has been ready to run without a CPU; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):  # not Linux, or a kernel without scheduler statistics
        return 0.0


def resident_memory() -> int:
    """Return the bytes of memory that this process occupies; 0 on systems other than Linux."""
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def release_memory() -> None:
    """Return unused memory of the C library to the operating system."""
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
    except (OSError, ValueError, subprocess.TimeoutExpired):  # not started, no number, no end: the trial failed
        return None


def _read(cache: Path) -> dict[str, float | None]:
    try:
        known = json.loads(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # missing or damaged cache: measure again
        return {}
    return known if isinstance(known, dict) else {}


def _fingerprint() -> str:
    """Return name and features of the CPU: a home folder, and so the cache, may be shared between machines."""
    features = hashlib.blake2b(cpu_info().get("flags", "").encode(), digest_size=4).hexdigest()
    return f"{cpu_name()} ({features})"
