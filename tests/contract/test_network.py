"""Two hosts train one run, and the network between them is disconnected.

The hosts are network namespaces connected by a pair of virtual devices.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from killed import SETTINGS, bits
from processes import events, processes_of, started, started_by, trained_in, training

NAME = f"gf{os.getpid()}"  # devices have short names
LONG = SETTINGS | {"train.steps": 40, "train.validate_every": 20, "train.checkpoint_every": 10}


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def namespaces_are_allowed() -> bool:
    if not sys.platform.startswith("linux") or shutil.which("ip") is None:
        return False
    try:
        ip("netns", "add", f"{NAME}x")
        ip("netns", "del", f"{NAME}x")
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


pytestmark = pytest.mark.skipif(
    not namespaces_are_allowed(), reason="network namespaces are not allowed here (they need root and iproute2)"
)


class Cable:
    def __init__(self) -> None:
        self.hosts = {f"{NAME}{side}": f"10.77.0.{number}" for number, side in enumerate("ab", 1)}

    def pull(self) -> None:
        ip("-n", f"{NAME}a", "link", "set", f"{NAME}a", "down")

    def plug_in(self) -> None:
        ip("-n", f"{NAME}a", "link", "set", f"{NAME}a", "up")


@pytest.fixture
def cable() -> Iterator[Cable]:
    cable = Cable()
    try:
        for host in cable.hosts:
            ip("netns", "add", host)
        ip("link", "add", f"{NAME}a", "netns", f"{NAME}a", "type", "veth", "peer", f"{NAME}b", "netns", f"{NAME}b")
        for host, address in cable.hosts.items():
            ip("-n", host, "addr", "add", f"{address}/24", "dev", host)
            ip("-n", host, "link", "set", "lo", "up")
            ip("-n", host, "link", "set", host, "up")
        yield cable
    finally:
        for host in cable.hosts:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", host)


@pytest.fixture(scope="module")
def whole(corpus: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of the same two processes on one machine, without interruption."""
    run = tmp_path_factory.mktemp("two") / "run"
    return trained_in(2, training(corpus, run, LONG), run)


# The first process waits at step 30 until the network is disconnected, unless it was restarted.
HOLD = """
import os, time
from pathlib import Path
from glassformer.tasks.translation import TranslationTask
loss, calls, folder = TranslationTask.loss, 0, Path({folder!r})
def held(task, model, batch):
    global calls
    calls += 1
    if calls == 30:
        (folder / "waiting").touch()
        while not (folder / "pulled").exists():
            time.sleep(0.02)
    return loss(task, model, batch)
if os.environ["RANK"] == "0" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    TranslationTask.loss = held
"""


@pytest.mark.parametrize(("timeout", "ends"), [("600", False), ("8", True)], ids=["short", "long"])
def test_a_disconnected_network_only_delays_the_run(
    timeout: str, ends: bool, cable: Cable, corpus: tuple[str, str], whole: Path, tmp_path: Path
) -> None:
    """A short interruption delays the run. A long one ends the processes, and torchrun restarts them afterwards."""
    run, first = tmp_path / "run", next(iter(cable.hosts.values()))
    program = HOLD.format(folder=str(tmp_path))
    with contextlib.ExitStack() as stack:
        launchers = []
        for host, address in cable.hosts.items():
            meeting = (
                "--nnodes=2",
                "--rdzv-backend=c10d",
                f"--rdzv-endpoint={first}:29541",
                f"--rdzv-conf=is_host={int(address == first)}",
                f"--local-addr={address}",
                "--max-restarts=10",
                "--monitor-interval=0.2",
            )
            training_of_host = started_by(program, tmp_path, training(corpus, run, LONG), *meeting, count=1)
            command = ["ip", "netns", "exec", host, *training_of_host]
            more = {"GLOO_SOCKET_IFNAME": host, "GLASSFORMER_TIMEOUT": timeout}
            launchers.append(stack.enter_context(started(command, tmp_path / f"{address}.log", **more)))
        while not (tmp_path / "waiting").exists():
            assert all(launcher.poll() is None for launcher in launchers)
            time.sleep(0.02)
        cable.pull()
        before = processes_of(run)
        (tmp_path / "pulled").touch()
        time.sleep(1)
        while ends and set(before.values()) & set(processes_of(run).values()):
            time.sleep(0.1)
        cable.plug_in()
        for launcher, address in zip(launchers, cable.hosts.values(), strict=True):
            assert launcher.wait() == 0, (tmp_path / f"{address}.log").read_text()
    assert len(before) == 2
    assert (len(events(run, "started")) > 1) is ends
    assert bits(run) == bits(whole)
