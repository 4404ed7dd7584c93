"""Runs in several processes: forked ones, or those that torchrun starts where the launcher is the subject."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.inference.run import read_weights
from tests import forked

for module in ("torch._dynamo", "glassformer.cli.train", "glassformer.training.sharded", "rich.progress"):
    importlib.import_module(module)  # once, and not in every forked process

ONE_MACHINE = ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0")


def torchrun(count: int, arguments: Sequence[str], *options: str) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}"]
    return [*launcher, *(options or ONE_MACHINE), "-m", "glassformer", *arguments]


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "GLASSFORMER_TIMEOUT": "60"} | more


def training(corpus: Sequence[str], run: Path, settings: dict[str, Any], *more: str) -> list[str]:
    return ["train", *corpus, "-o", str(run), *more, *(f"{name}={_toml(value)}" for name, value in settings.items())]


def _toml(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


@dataclass(frozen=True)
class Ranks:
    """The processes of a run, forked; all are ended when one of them fails, as torchrun ends them."""

    children: list[forked.Child]

    def poll(self) -> int | None:
        """Return the exit code: of the first process that failed, or 0; None while they run."""
        codes = [child.poll() for child in self.children]
        failed = [code for code in codes if code]
        if failed:
            self.kill()
        return failed[0] if failed else (None if None in codes else 0)

    def wait(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(0.005)
        return code

    def kill(self) -> None:
        for child in self.children:
            child.send_signal(signal.SIGKILL)
        for child in self.children:
            child.wait()

    @property
    def out(self) -> str:
        return "".join(child.out for child in self.children)

    @property
    def err(self) -> str:
        return "".join(child.err for child in self.children)


def forked_ranks(count: int, arguments: Sequence[str], folder: Path, before: str = "") -> Ranks:
    """Start `glassformer ARGUMENTS` in `count` processes, with the environment of torchrun.

    folder  for their standard streams
    before  lines of Python that each process runs first; all that it runs where there are no arguments
    """
    command, ranks = forked.command_line(arguments), Ranks([])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

    def act() -> None:
        exec(before, {})
        if arguments:
            command()

    for rank in range(count):
        told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        told |= {"TORCHELASTIC_RUN_ID": "forked", "GLASSFORMER_TIMEOUT": 60}
        env = {name: str(value) for name, value in told.items()}
        ranks.children.append(forked.start(act, Path.cwd(), folder / f"streams of rank {rank}", env=env))
    return ranks


def trained_in(count: int, arguments: Sequence[str], run: Path, before: str = "") -> Path:
    """Train in several forked processes, which must succeed; return the run."""
    ranks = forked_ranks(count, arguments, run.parent, before)
    assert ranks.wait() == 0, ranks.err
    return run


def finish(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


@contextlib.contextmanager
def started(command: Sequence[str], log: Path, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that is killed with its children at the end of the block; their output goes to a file."""
    with (
        log.open("wb") as said,
        subprocess.Popen(command, env=environment(**more), stdout=said, stderr=said, start_new_session=True) as process,
    ):
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def wait_for_step(launcher: Ranks, run: Path, step: int) -> None:
    """Wait until a training has saved a checkpoint of this step or a later one."""
    while not ((run / "log.jsonl").exists() and any(event["step"] >= step for event in events(run, "saved"))):
        assert launcher.poll() is None, f"the training ended before step {step}"
        time.sleep(0.02)


def weights_at(run: Path, step: int) -> dict[str, Tensor]:
    """Return the weights without the biases of keys: the softmax ignores these, so only rounding errors move them."""
    weights = read_weights(run / f"checkpoints/step-{step}/model.safetensors")
    for name, weight in weights.items():
        if name.endswith("key_value.bias"):
            weight.chunk(3 if name.endswith("query_key_value.bias") else 2)[-2].zero_()
    return weights


def started_by(program: str, tmp_path: Path, arguments: Sequence[str], *options: str, count: int = 2) -> list[str]:
    """Return the command for processes that run a few lines before `glassformer`."""
    (tmp_path / "start.py").write_text(f"{program}\nfrom glassformer.cli import main\nmain()\n", encoding="utf-8")
    return [*torchrun(count, [], *options)[:-2], str(tmp_path / "start.py"), *arguments]


def processes_of(run: Path) -> dict[int, int]:
    """Return the processes that train in a folder: process id by rank."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            told = dict(line.partition(b"=")[::2] for line in (folder / "environ").read_bytes().split(b"\0"))
        except OSError:  # it has ended, or is not ours
            continue
        if str(run).encode() in command and b"RANK" in told and b"torch.distributed.run" not in command:
            found[int(told[b"RANK"])] = int(folder.name)
    return found
