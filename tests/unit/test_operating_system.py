"""The rules of macOS and Windows, simulated: fake system modules are backed by the real calls of this system."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import types
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from glassformer import files, machine, operating_system
from glassformer.errors import UserError

fcntl = pytest.importorskip("fcntl")  # what the fake modules are made of

# Windows in a process of its own: `fcntl` is missing, and `msvcrt` locks a range of bytes, as POSIX record locks do.
WINDOWS = """
import fcntl as real, os, sys, types
import glassformer.files
def locking(descriptor, mode, count):
    try:
        real.lockf(descriptor, real.LOCK_EX | real.LOCK_NB, count, os.lseek(descriptor, 0, os.SEEK_CUR))
    except BlockingIOError:
        raise PermissionError(13, "Permission denied") from None
sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
sys.modules["fcntl"] = None
sys.platform = "win32"
from pathlib import Path
from glassformer.files import exclusive_lock, try_lock, wait_for_lock, write_text
"""
HOLD = """
with exclusive_lock(Path(sys.argv[1]), "training here"):
    print("held", flush=True)
    sys.stdin.readline()
print(Path(sys.argv[1]).exists(), flush=True)
"""
TRY = """
with try_lock(Path(sys.argv[1])) as held:
    print(held)
try:
    with exclusive_lock(Path(sys.argv[1]), "training here"):
        print("free")
except Exception as error:
    print(error.message)
"""
WAIT = """
with wait_for_lock(Path(sys.argv[1])):
    print("mine", flush=True)
"""


def windows(program: str, lock: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WINDOWS + program, str(lock)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_lock_of_windows_keeps_others_out_until_it_is_released(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    with windows(HOLD, lock) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        refused = windows(TRY, lock).communicate()[0].splitlines()
        assert refused == ["False", f"Another process is training here (process {holder.pid})."]
        with windows(WAIT, lock) as waiting:
            assert holder.communicate("\n")[0] == "False\n"  # it deleted the file after closing it
            assert waiting.communicate()[0] == "mine\n"
    assert windows(TRY, lock).communicate()[0].splitlines() == ["True", "free"]


def test_files_are_flushed_by_the_rules_of_each_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, int]] = []
    really = os.open

    def recorded(path: Path, flags: int, *rest: Any) -> int:
        opened.append((Path(path).name, flags & (os.O_RDONLY | os.O_RDWR)))
        return really(path, flags, *rest)

    monkeypatch.setattr(os, "open", recorded)
    files.write_text(tmp_path / "a.txt", "one\n")
    assert [flags for _, flags in opened] == [os.O_RDONLY, os.O_RDONLY] and opened[1][0] == tmp_path.name
    opened.clear()
    monkeypatch.setattr(sys, "platform", "win32")
    files.write_text(
        tmp_path / "a.txt", "two\n"
    )  # a file can only be flushed if it is open for writing, a folder never
    assert [flags for _, flags in opened] == [os.O_RDWR]
    assert (tmp_path / "a.txt").read_bytes() == b"two\n"


@pytest.mark.parametrize("supported", [True, False])
def test_macos_empties_the_cache_of_the_drive(supported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def control(descriptor: int, command: int) -> int:
        calls.append(command)
        if not supported:
            raise OSError("not supported")
        return 0

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
    monkeypatch.setattr(sys, "platform", "darwin")
    (tmp_path / "file").touch()
    operating_system.flush(tmp_path / "file")
    assert calls == ([51] if supported else [51, "fsync"])


@pytest.mark.parametrize("failures", [3, 10**6])
def test_windows_waits_for_a_file_that_another_program_has_open(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, calls = os.replace, []

    def busy(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) <= failures:
            raise PermissionError(13, "The process cannot access the file")
        really(source, target)

    monkeypatch.setattr(os, "replace", busy)
    monkeypatch.setattr(operating_system, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(sys, "platform", "win32")
    path = tmp_path / "run.toml"
    if failures == 3:
        files.write_text(path, "done")
        assert path.read_text(encoding="utf-8") == "done" and len(calls) == 4
    else:
        with pytest.raises(UserError, match="cannot be written"):
            files.write_text(path, "done")
        assert not list(tmp_path.iterdir())


def test_limits_and_names_of_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert operating_system.limit_processes(96) == 96
    assert operating_system.environment_python(tmp_path) == tmp_path / "bin" / "python"
    assert operating_system.stop_signals() == [signal.SIGINT, signal.SIGTERM]
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(signal, "SIGBREAK", 21, raising=False)
    assert operating_system.limit_processes(96) == 61
    assert operating_system.environment_python(tmp_path) == tmp_path / "Scripts" / "python.exe"
    assert operating_system.stop_signals() == [signal.SIGINT, signal.SIGTERM, 21]


def test_the_memory_of_the_machine_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    here = operating_system.physical_memory()
    assert here is not None and here > 1 << 28

    def fill(status: Any) -> int:
        memory = status._obj
        assert memory.length == ctypes.sizeof(memory) == 64  # MEMORYSTATUSEX
        memory.physical = 8 << 30
        return 1

    kernel = types.SimpleNamespace(GlobalMemoryStatusEx=fill)
    monkeypatch.setattr(ctypes, "windll", types.SimpleNamespace(kernel32=kernel), raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    assert operating_system.physical_memory() == 8 << 30


def test_the_name_of_the_cpu_comes_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert operating_system.cpu_name()
    monkeypatch.setattr(operating_system, "_output", lambda command: f"Apple {command[-1].split('.')[1]}")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert operating_system.cpu_name() == "Apple cpu"
    assert machine._fingerprint().startswith("Apple cpu (")
    registry = types.SimpleNamespace(
        HKEY_LOCAL_MACHINE=1,
        OpenKey=lambda *path: nullcontext(),
        QueryValueEx=lambda key, name: (f" {name} @ 2 GHz ", 1),
    )
    monkeypatch.setitem(sys.modules, "winreg", registry)
    monkeypatch.setattr(sys, "platform", "win32")
    assert operating_system.cpu_name() == "ProcessorNameString @ 2 GHz"


def test_a_worker_of_the_service_takes_a_shared_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`share` and `fromshare` exist on Windows alone: here the bytes are a descriptor, which the process inherits."""
    pytest.importorskip("fastapi", reason="the service is an extra")
    from glassformer.serving import worker_handle
    from glassformer.serving.protocol import Unpacker, pack

    fromshare = "import socket\nsocket.fromshare = lambda data: socket.socket(fileno=int(data))\n"
    (tmp_path / "sitecustomize.py").write_text(fromshare, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    start = asyncio.create_subprocess_exec

    class Shared(socket.socket):
        def share(self, pid: int) -> bytes:
            return str(self.fileno()).encode()

    async def answer() -> list[Any]:
        ours, theirs = socket.socketpair()
        connection = Shared(fileno=theirs.detach())

        async def inheriting(*command: str, **options: Any) -> Any:
            return await start(*command, pass_fds=[connection.fileno()], **options)

        monkeypatch.setattr(asyncio, "create_subprocess_exec", inheriting)
        with monkeypatch.context() as simulated, connection:
            simulated.setattr(worker_handle.sys, "platform", "win32")
            process = await worker_handle.start_worker(connection, "fp32", "auto")
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(pack([["ping"]]))
        (message,) = Unpacker().feed(await reader.read(1 << 16))
        writer.write(pack([["stop"]]))
        assert await process.wait() == 0
        writer.close()
        return message

    name, statistics = asyncio.run(answer())
    assert name == "pong" and statistics["steps"] == 0
