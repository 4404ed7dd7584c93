"""The service as a process of its own on this machine, as `glassformer serve` starts it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx2


class ServerProcess:
    """`glassformer serve …`; `url` is its address, `logs()` what it has logged so far."""

    def __init__(self, *arguments: str | Path, env: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "glassformer", "serve", *map(str, arguments), "--port", "0", "--workers", "1"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        assert self.process.stdout is not None
        found = re.search(r"http://\S+?:(\d+)/", self.process.stdout.readline())
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if found is None:
            self.process.wait()
            self._reader.join()
            raise AssertionError("\n".join(self._lines))
        self.url = f"http://127.0.0.1:{found[1]}"
        self.client = httpx2.Client(base_url=self.url, timeout=None)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.append(line)

    def wait_until_ready(self) -> None:
        """Wait until the models are loaded. Connections wait in the queue of the socket before that."""
        while True:
            try:
                if self.client.get("/ready").status_code == 200:
                    return
            except httpx2.TransportError:
                pass  # it has not begun to accept connections
            if self.process.poll() is not None:
                raise AssertionError("".join(self._lines))
            time.sleep(0.1)

    def logs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._lines]

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.logs() if line["event"] == name]

    def text_of_logs(self) -> str:
        return "".join(self._lines)

    def pool(self, name: str) -> float:
        """Return a number that the pool reports."""
        found = re.search(rf"^glassformer_pool_{name} (\S+)$", self.client.get("/metrics").text, re.MULTILINE)
        assert found is not None
        return float(found[1])

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait()
        self._reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code
