"""`glassformer studio`: start, serve, stop."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from command_line import glassformer

pytest.importorskip("fastapi", reason="the studio is an extra")
FROZEN = Path(__file__).parents[1] / "compat" / "runs" / "format-1"


def test_studio_prints_its_address_serves_and_stops_on_ctrl_c() -> None:
    command = [sys.executable, "-m", "glassformer", "studio", str(FROZEN), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        assert found is not None
        page = urllib.request.urlopen(found[0]).read().decode()
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate()
    assert "<title>Glassformer studio</title>" in page
    assert "Traceback" not in complaint


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = glassformer(f"studio {FROZEN} --no-browser --port {port}")
    assert result.code == 2
    assert f"Port {port} is in use" in result.err and "--port" in result.err
