"""Two hosts and a cable between them, which is pulled while they train one run.

The hosts are network namespaces joined by a pair of virtual devices: another network each, as two machines have.
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
from processes import events, started, torchrun, trained, training, wait_for_step

NAME = f"gf{os.getpid()}"  # devices have short names
LONG = SETTINGS | {"train.steps": 300, "train.validate_every": 150, "train.checkpoint_every": 10}


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
    """What the same two processes make of it on one machine, with nothing in their way."""
    run = tmp_path_factory.mktemp("two") / "run"
    return trained(torchrun(2, training(corpus, run, LONG)), run)


@pytest.mark.parametrize(("seconds", "timeout", "starts"), [(1.0, "60", 1), (9.0, "4", 2)], ids=["short", "long"])
def test_a_cable_that_was_pulled_costs_time_and_nothing_else(
    seconds: float, timeout: str, starts: int, cable: Cable, corpus: tuple[str, str], whole: Path, tmp_path: Path
) -> None:
    """A short cut is sat out. A long one ends the processes; torchrun starts them again when the hosts meet."""
    run, first = tmp_path / "run", next(iter(cable.hosts.values()))
    with contextlib.ExitStack() as stack:
        launchers = []
        for host, address in cable.hosts.items():
            meeting = (
                "--nnodes=2",
                "--rdzv-backend=c10d",
                f"--rdzv-endpoint={first}:29541",
                f"--rdzv-conf=is_host={int(address == first)}",
                f"--local-addr={address}",
                "--max-restarts=3",
                "--monitor-interval=0.2",
            )
            command = ["ip", "netns", "exec", host, *torchrun(1, training(corpus, run, LONG), *meeting)]
            more = {"GLOO_SOCKET_IFNAME": host, "GLASSFORMER_TIMEOUT": timeout}
            launchers.append(stack.enter_context(started(command, tmp_path / f"{address}.log", **more)))
        wait_for_step(run, 30)
        cable.pull()
        time.sleep(seconds)
        cable.plug_in()
        for launcher, address in zip(launchers, cable.hosts.values(), strict=True):
            assert launcher.wait(timeout=120) == 0, (tmp_path / f"{address}.log").read_text()
    assert len(events(run, "started")) == starts
    assert bits(run, 300) == bits(whole, 300)
