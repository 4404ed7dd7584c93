"""Differences between Linux, macOS and Windows: file locks, durable writes, signals, processes and memory.

Linux forks worker processes, macOS and Windows spawn them (`data/process_pool.py`). Windows has no `fcntl`, cannot
flush a folder, and does not replace or delete a file that is open.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

LOCK_BYTE = 1 << 30  # Windows: the byte that is locked. Locked bytes cannot be read, so it is not one of the text.
RETRY_SECONDS = 0.05
REPLACE_ATTEMPTS = 40  # Windows: two seconds in which a virus scanner or an indexer closes the file
MAX_WINDOWS_PROCESSES = 61  # a process can wait for 63 others; `concurrent.futures` needs two of them


def lock(file: IO[str], *, wait: bool) -> None:
    """Lock an open file until it is closed; BlockingIOError if another process holds it and `wait` is False."""
    if sys.platform == "win32":
        while not _lock_byte(file):
            if not wait:
                raise BlockingIOError
            time.sleep(RETRY_SECONDS)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _lock_byte(file: IO[str]) -> bool:
    """Try to lock a byte far behind the end of the file (Windows)."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(file.fileno(), LOCK_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:  # another process holds it
            return False
        finally:
            os.lseek(file.fileno(), 0, os.SEEK_SET)
    return True


def delete_lock_file(path: Path, file: IO[str]) -> None:
    """Delete a lock file that this process holds, and release the lock."""
    if sys.platform == "win32":
        file.close()  # an open file cannot be deleted
        with contextlib.suppress(PermissionError):  # another process has opened it meanwhile: it deletes the file
            path.unlink(missing_ok=True)
    else:
        path.unlink(missing_ok=True)
        file.close()


def flush(path: Path) -> None:
    """Make a file, or the entries of a folder, durable: they survive a power failure."""
    if sys.platform == "win32" and path.is_dir():
        return  # Windows has no call that flushes a folder
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        flush_descriptor(descriptor)
    finally:
        os.close(descriptor)


def flush_descriptor(descriptor: int) -> None:
    """Make an open file durable."""
    if sys.platform == "darwin":
        import fcntl

        with contextlib.suppress(OSError):  # a file system without this call, such as a network drive
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # fsync does not empty the cache of the drive there
            return
    os.fsync(descriptor)


def replace(source: Path, target: Path) -> None:
    """Rename a file or folder, replacing `target`. On Windows, wait a moment for other programs to close it."""
    for _ in range(REPLACE_ATTEMPTS if sys.platform == "win32" else 0):
        with contextlib.suppress(PermissionError):
            os.replace(source, target)
            return
        time.sleep(RETRY_SECONDS)
    os.replace(source, target)


def stop_signals() -> list[signal.Signals]:
    """Return the signals that ask a process to stop; on Windows also Ctrl-Break and the closing of the window."""
    if sys.platform == "win32":
        return [signal.SIGINT, signal.SIGTERM, signal.SIGBREAK]
    return [signal.SIGINT, signal.SIGTERM]


def limit_processes(count: int) -> int:
    """Return the number of worker processes, at most as many as the system can wait for."""
    return min(count, MAX_WINDOWS_PROCESSES) if sys.platform == "win32" else count


def environment_python(folder: Path) -> Path:
    """Return the Python interpreter of a virtual environment."""
    return folder / "Scripts" / "python.exe" if sys.platform == "win32" else folder / "bin" / "python"


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of the Windows API."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("physical", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 6),
    )


def physical_memory() -> int | None:
    """Return the size of this machine's memory in bytes; None if the system does not report it."""
    if sys.platform == "win32":
        status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
        return int(status.physical) if ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)) else None
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):  # this system has no such name
        return None


def cpu_info() -> dict[str, str]:
    """Return `model name` and `flags` of the CPU, as far as the system reports them."""
    if sys.platform == "win32":
        import winreg

        key = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as opened:
            return {"model name": str(winreg.QueryValueEx(opened, "ProcessorNameString")[0])}
    if sys.platform == "darwin":
        return {"model name": _output(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"])}
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # neither Linux nor one of the systems above
        return {}
    return {line.split(":")[0].strip(): line.split(":", 1)[1].strip() for line in lines if ":" in line}


def cpu_name() -> str:
    """Return the model name of the CPU."""
    return " ".join(cpu_info().get("model name", "").split()) or platform.processor() or platform.machine()


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # the program is missing or does not know the name
        return ""
