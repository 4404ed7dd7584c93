"""The service under steady load while a worker process is killed and the models are loaded again.

    python bench/soak.py RUN --lines FILE --seconds 600 --clients 64 --rate 20

Every answer is compared with the output of `glassformer translate`; a missing or different one is an error, and the
exit code is 1. After a fifth of the time a worker gets SIGKILL, after two fifths the service gets SIGHUP. The resident
memory, in MB, is measured at the start and after every tenth of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from itertools import count
from pathlib import Path

from serving import Client

TENTHS, KILL_AFTER, RELOAD_AFTER = 10, 2, 4


class Service:
    """`glassformer serve RUN` as a process; `log` is the file that it writes to."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        run = f"{arguments.run}={arguments.source}-{arguments.target}"
        command = [sys.executable, "-m", "glassformer", "serve", run, "--port", "0"]
        command += ["--workers", str(arguments.workers), "--precision", arguments.precision]
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert self.process.stdout is not None
        found = re.search(r"http://\S+?:\d+", self.process.stdout.readline())
        if found is None:
            sys.exit(self.text_of_log())
        self.url = found[0].replace("localhost", "127.0.0.1")

    def metrics(self, name: str) -> list[int]:
        """Return the values of a metric of the pool, one per label."""
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            text = answer.read().decode()
        values = re.findall(rf"^glassformer_pool_{name}(?:{{.*}})? (\S+)$", text, flags=re.MULTILINE)
        return [int(float(value)) for value in values]

    def workers(self) -> list[int]:
        return self.metrics("workers_pid")

    def memory(self) -> list[int]:
        """Return the resident memory of the server and of each worker; one that has just ended is left out."""
        found = []
        for process in (self.process.pid, *self.workers()):
            with suppress(OSError):
                pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
                found.append(pages * os.sysconf("SC_PAGE_SIZE") // 2**20)
        return found

    def text_of_log(self) -> str:
        self.process.wait()
        self.log.seek(0)
        return self.log.read()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


async def run_clients(service: Service, expected: dict[str, str], arguments: argparse.Namespace) -> dict[str, object]:
    """Send lines at a rate, or without pauses if it is 0; return what was answered."""
    lines, numbers, start = list(expected), count(), time.perf_counter()
    latencies, errors = list[float](), list[str]()

    async def client() -> None:
        connection = Client(service.url, arguments.source, arguments.target)
        await connection.connect()
        while True:
            number = next(numbers)
            due = start + number / arguments.rate if arguments.rate else time.perf_counter()
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if (began := time.perf_counter()) > start + arguments.seconds:
                return connection.writer.close()
            line = lines[number % len(lines)]
            try:
                answer = await connection.translate(line)
            except (OSError, EOFError, RuntimeError) as error:
                errors.append(f"{line!r}: {error!r}")
                await connection.connect()
                continue
            latencies.append(time.perf_counter() - began)
            if answer != expected[line]:
                errors.append(f"{line!r}: {answer!r} instead of {expected[line]!r}")

    await asyncio.gather(*(client() for _ in range(arguments.clients)))
    latencies.sort()
    at = [round(1000 * latencies[int(share * (len(latencies) - 1))], 1) for share in (0.5, 0.99, 1)]
    return {"answers": len(latencies), "errors": errors} | dict(zip(("p50_ms", "p99_ms", "max_ms"), at, strict=True))


async def disturb(service: Service, seconds: float) -> dict[str, object]:
    """Kill a worker and reload the models; return the memory over time and what the pool counted."""
    memory = [await asyncio.to_thread(service.memory)]
    for tenth in range(1, TENTHS + 1):
        await asyncio.sleep(seconds / (TENTHS + 1))
        memory.append(await asyncio.to_thread(service.memory))
        if tenth == KILL_AFTER:
            os.kill((await asyncio.to_thread(service.workers))[0], signal.SIGKILL)
        if tenth == RELOAD_AFTER:
            service.process.send_signal(signal.SIGHUP)
    names = ("lost_workers", "retried", "poisoned", "refused", "failed", "done")
    counts = {name: (await asyncio.to_thread(service.metrics, name))[0] for name in names}
    return {"memory_mb": memory} | counts


async def soak(service: Service, expected: dict[str, str], arguments: argparse.Namespace) -> dict[str, object]:
    first = Client(service.url, arguments.source, arguments.target)
    await first.connect()
    await first.translate(next(iter(expected)))  # waits until the models are loaded
    first.writer.close()
    answered, disturbed = await asyncio.gather(
        run_clients(service, expected, arguments), disturb(service, arguments.seconds)
    )
    return answered | disturbed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--lines", type=Path, required=True, help="sentences, one per line")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rate", type=float, default=20, help="requests per second of all clients; 0 for no pauses")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--precision", default="fp32")
    arguments = parser.parse_args()

    from glassformer.inference.translator import load_translator

    lines = [line for line in arguments.lines.read_text(encoding="utf-8").splitlines() if line.strip()]
    translator = load_translator(arguments.run, precision=arguments.precision)
    expected = dict(zip(lines, translator(lines), strict=True))
    service = Service(arguments)
    try:
        found = asyncio.run(soak(service, expected, arguments))
    finally:
        service.stop()
    log = service.text_of_log().splitlines()
    events = [json.loads(line)["event"] for line in log if line.startswith("{")]
    found |= {event: events.count(event) for event in ("reloaded", "stopped", "error")}
    print(json.dumps(found | {"not_json": [line for line in log if not line.startswith("{")]}))
    sys.exit(bool(found["errors"]))


if __name__ == "__main__":
    main()
