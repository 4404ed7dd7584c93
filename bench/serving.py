"""The service under load: requests per second and latency over HTTP, and the worker pool against `translate`.

    python bench/serving.py http glassformer=http://127.0.0.1:8000 libretranslate=http://127.0.0.1:5000 \\
        --lines FILE --source en --target de --clients 1,8,64
    python bench/serving.py pool RUN --lines FILE --precision int8

`http` sends LibreTranslate's `POST /translate`, one sentence per request, so that every server is measured by the same
client. A client keeps its connection and sends the next request when it has the answer. Servers take turns, and the
medians of all rounds are printed. CPU seconds are those of the server's process tree: they say what a sentence costs
also where other programs use the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(root: int) -> float:
    """Return the CPU time of a process, its children and those of them that have ended."""
    children: dict[int, list[int]] = {}
    times: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(folder.name))
            times[int(folder.name)] = sum(map(int, fields[11:15]))
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        total += times.get(process, 0)
        waiting += children.get(process, [])
    return total / TICKS


class Client:
    """One connection that translates one sentence at a time."""

    def __init__(self, url: str, source: str, target: str) -> None:
        self.url, self.source, self.target = urlsplit(url), source, target

    async def connect(self) -> None:
        port = self.url.port or 80
        self.reader, self.writer = await asyncio.open_connection(self.url.hostname, port, limit=1 << 22)

    async def translate(self, line: str) -> str:
        body = json.dumps({"q": line, "source": self.source, "target": self.target, "format": "text"}).encode()
        self.writer.write(
            b"POST /translate HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (self.url.netloc.encode(), len(body), body)
        )
        status = int((await self.reader.readline()).split()[1])
        headers = {}
        while (header := await self.reader.readline()) not in (b"\r\n", b""):
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        answer = await self.reader.readexactly(int(headers["content-length"]))
        if headers.get("connection", "").lower() == "close":
            self.writer.close()
            await self.connect()
        if status != 200:
            raise RuntimeError(f"HTTP {status}: {answer[:300]!r}")
        text: str = json.loads(answer)["translatedText"]
        return text


async def load(url: str, lines: Iterator[str], clients: int, seconds: float, codes: tuple[str, str]) -> list[float]:
    """Let clients send requests for a time; return the latencies of the answered ones."""
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def run() -> None:
        client = Client(url, *codes)
        await client.connect()
        while (start := time.perf_counter()) < end:
            await client.translate(next(lines))
            latencies.append(time.perf_counter() - start)
        client.writer.close()

    await asyncio.gather(*(run() for _ in range(clients)))
    return latencies


def measure_http(arguments: argparse.Namespace, lines: list[str]) -> list[dict]:
    """Measure every server with every number of clients."""
    servers = dict(server.split("=", 1) for server in arguments.servers)
    processes = dict(pid.split("=", 1) for pid in arguments.pid)
    rounds: dict[tuple[str, int], list[dict]] = {}
    for _ in range(arguments.rounds):
        for clients in map(int, arguments.clients.split(",")):
            for name, url in servers.items():
                pid = int(processes.get(name, 0))
                before, start = cpu_seconds(pid) if pid else 0.0, time.perf_counter()
                codes = arguments.source, arguments.target
                found = sorted(asyncio.run(load(url, cycle(lines), clients, arguments.seconds, codes)))
                spent = time.perf_counter() - start
                rounds.setdefault((name, clients), []).append(
                    {
                        "requests_per_second": len(found) / spent,
                        "p50_ms": 1000 * found[len(found) // 2],
                        "p99_ms": 1000 * found[min(len(found) - 1, 99 * len(found) // 100)],
                        "cpu_ms_per_request": 1000 * (cpu_seconds(pid) - before) / len(found) if pid else 0.0,
                    }
                )
    return [
        {"server": name, "clients": clients, "rounds": len(many)}
        | {key: round(statistics.median(one[key] for one in many), 2) for key in many[0]}
        for (name, clients), many in rounds.items()
    ]


async def pool_rounds(arguments: argparse.Namespace, lines: list[str]) -> AsyncIterator[dict]:
    """Translate the same lines with the pool and with the code of `translate -i`, in turns."""
    from glassformer.inference.translator import load_translator
    from glassformer.inference.workers import translate_stream
    from glassformer.serving.jobs import Job
    from glassformer.serving.pool import Pool

    translator = load_translator(arguments.run, precision=arguments.precision)
    pool = Pool({"run": arguments.run}, workers=arguments.workers, precision=arguments.precision)
    await pool.start()

    async def submitter(waiting: Iterator[tuple[int, str]], found: dict[int, str]) -> None:
        for number, line in waiting:
            found[number] = (await pool.submit(Job("run", line, beam=arguments.beam))).hypotheses[0].text

    for _ in range(arguments.rounds):
        found: dict[int, str] = {}
        waiting = iter(enumerate(lines))
        before, start = cpu_seconds(os.getpid()), time.perf_counter()
        await asyncio.gather(*(submitter(waiting, found) for _ in range(arguments.clients)))
        of_pool = time.perf_counter() - start, cpu_seconds(os.getpid()) - before
        before, start = cpu_seconds(os.getpid()), time.perf_counter()
        stream = translate_stream(translator, lines, workers=arguments.workers, beam=arguments.beam)
        expected = [translation.text for translation in stream]
        of_translate = time.perf_counter() - start, cpu_seconds(os.getpid()) - before
        yield {
            "pool_lines_per_second": len(lines) / of_pool[0],
            "translate_lines_per_second": len(lines) / of_translate[0],
            "ratio": of_translate[0] / of_pool[0],
            "cpu_ratio": of_translate[1] / of_pool[1],
            "identical": sum(found[number] == text for number, text in enumerate(expected)) / len(expected),
        }
    await pool.stop(drain=True, timeout=5)


def measure_pool(arguments: argparse.Namespace, lines: list[str]) -> list[dict]:
    async def collect() -> list[dict]:
        return [one async for one in pool_rounds(arguments, lines)]

    rounds = asyncio.run(collect())
    return [{key: round(statistics.median(one[key] for one in rounds), 3) for key in rounds[0]}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    http = modes.add_parser("http")
    http.add_argument("servers", nargs="+", metavar="NAME=URL")
    http.add_argument("--pid", action="append", default=[], metavar="NAME=PID", help="to measure the CPU time as well")
    http.add_argument("--source", default="en")
    http.add_argument("--target", default="de")
    http.add_argument("--clients", default="1,8,64")
    http.add_argument("--seconds", type=float, default=10)
    pool = modes.add_parser("pool")
    pool.add_argument("run", type=Path)
    pool.add_argument("--precision", default="fp32")
    pool.add_argument("--beam", type=int)
    pool.add_argument("--clients", type=int, default=64)
    pool.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    for mode in (http, pool):
        mode.add_argument("--lines", type=Path, required=True, help="sentences, one per line")
        mode.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    lines = [line for line in arguments.lines.read_text(encoding="utf-8").splitlines() if line.strip()]
    for row in (measure_http if arguments.mode == "http" else measure_pool)(arguments, lines):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
