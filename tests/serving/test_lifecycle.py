"""The server process: address, disconnecting clients, a full queue, signals. One process for all tests."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from server_process import ServerProcess

from glassformer.serving.keys import add_key, remove_key

ASK = {"q": "I am a student", "source": "en", "target": "fr"}
FRENCH = {"translatedText": "Je suis étudiant"}
LONG = "I am a student. " * 500  # takes seconds


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.json"


@pytest.fixture(scope="module")
def key(keys_file: Path) -> str:
    return add_key(keys_file, "tests", requests_per_minute=10_000)


@pytest.fixture(scope="module")
def guarded(keys_file: Path, key: str, english_french: Path) -> Iterator[ServerProcess]:
    """A service with keys, a small queue, and few requests per minute."""
    add_key(keys_file, "few", requests_per_minute=3)
    options = ("--keys", keys_file, "--queue-size", "2", "--drain", "600", "--timeout", "600", "--ready-delay", "1.5")
    running = ServerProcess(f"{english_french}=en-fr", *options)
    running.wait_until_ready()
    running.client.headers["Authorization"] = f"Bearer {key}"
    yield running
    running.stop(signal.SIGKILL)


def test_a_damaged_run_is_one_message(english_french: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(english_french, tmp_path / "en-fr"))
    (run / "model.safetensors").write_bytes(b"damaged")
    done = subprocess.run(
        [sys.executable, "-m", "glassformer", "serve", str(run), "--port", "0", "--workers", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "The weights are damaged" in done.stderr and "hint:" in done.stderr


def test_it_listens_on_this_machine_only(guarded: ServerProcess) -> None:
    port = int(guarded.url.rsplit(":", 1)[1])
    with pytest.raises(ConnectionRefusedError):  # answers if the service listens on all addresses
        socket.create_connection(("127.0.0.2", port))


def test_headers_are_bounded(guarded: ServerProcess) -> None:
    """Many headers, a long one, a long address, trailers after the body, and a header that does not end."""
    address = "127.0.0.1", int(guarded.url.rsplit(":", 1)[1])
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    chunked = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    for request in (
        head + b"".join(b"X-%d: %b\r\n" % (number, b"a" * 100) for number in range(1000)) + b"\r\n",
        head + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /health?" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        chunked + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
    ):
        with socket.create_connection(address) as client:
            client.sendall(request)
            assert client.recv(12) == b"HTTP/1.1 400"
    with socket.create_connection(address) as client:
        try:
            client.sendall(head + b"X: " + b"a" * 2_000_000 + b"\r\n\r\n")
            assert client.recv(12) in (b"HTTP/1.1 400", b"")
        except OSError:  # the connection was closed before all was sent
            pass
    assert httpx2.get(f"{guarded.url}/health", headers={"X": "a" * 10_000}).status_code == 200


def test_the_address_of_a_client_cannot_be_made_up(keys_file: Path, guarded: ServerProcess) -> None:
    """Without --trusted-proxy, X-Forwarded-For does not change the client of a request."""
    wrong = {"Authorization": "Bearer wrong"}
    statuses = [
        guarded.client.get("/v1/models", headers=wrong | {"X-Forwarded-For": f"10.0.0.{n}"}).status_code
        for n in range(100)
    ]
    assert 429 in statuses


def test_the_work_for_a_client_that_left_is_dropped(guarded: ServerProcess) -> None:
    body = json.dumps(ASK | {"q": LONG}).encode()
    head = (
        f"POST /translate HTTP/1.1\r\nHost: localhost\r\nAuthorization: {guarded.client.headers['Authorization']}\r\n"
    )
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(guarded.url.rsplit(":", 1)[1]))) as leaving:
        leaving.sendall(head.encode() + body)
        while guarded.pool("in_flight") < 1:
            time.sleep(0.02)
    while guarded.pool("in_flight") or not any(line["status"] == 499 for line in guarded.events("request")):
        time.sleep(0.02)
    assert guarded.pool("cancelled") >= 1 and guarded.pool("done") < 500
    assert guarded.client.post("/translate", json=ASK).json() == FRENCH


def test_a_full_queue(guarded: ServerProcess) -> None:
    """More requests than there is room for: each is answered, with a translation or with 429."""
    ask = {"text": "I am a student " * 60, "target": "fr", "source": "en", "beam": 16}
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: guarded.client.post("/v1/translate", json=ask), range(16)))
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 429}
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers if answer.status_code == 429)
    assert guarded.client.post("/translate", json=ASK).json() == FRENCH


def test_a_long_text_waits_for_room(guarded: ServerProcess) -> None:
    text = " ".join(["I am a student."] * 100)
    answer = guarded.client.post("/translate", json=ASK | {"q": text})
    assert answer.json() == {"translatedText": " ".join(["Je suis étudiant."] * 100)}


def test_sighup_reloads_models_and_keys(guarded: ServerProcess, keys_file: Path) -> None:
    second = add_key(keys_file, "second")
    headers = {"Authorization": f"Bearer {second}"}
    assert httpx2.get(f"{guarded.url}/v1/models", headers=headers).status_code in (401, 429)
    guarded.process.send_signal(signal.SIGHUP)
    while not guarded.events("reloaded"):
        time.sleep(0.05)
    assert httpx2.get(f"{guarded.url}/v1/models", headers=headers).status_code == 200
    remove_key(keys_file, "second")
    assert guarded.client.post("/translate", json=ASK).json() == FRENCH


def test_sigterm_answers_what_has_begun(guarded: ServerProcess) -> None:
    """/ready returns 503 at once; a running request is answered; then the process ends."""
    answers: list[httpx2.Response] = []
    ask = ASK | {"q": LONG}
    running = threading.Thread(target=lambda: answers.append(guarded.client.post("/translate", json=ask, timeout=None)))
    running.start()
    while guarded.pool("in_flight") < 1:
        time.sleep(0.02)
    guarded.process.send_signal(signal.SIGTERM)
    while httpx2.get(f"{guarded.url}/ready").status_code == 200:
        time.sleep(0.02)
    running.join()
    assert answers[0].status_code == 200 and "translatedText" in answers[0].json()
    guarded.process.wait()
    assert any(line["event"] == "stopped" for line in guarded.logs())
    assert "Traceback" not in guarded.text_of_logs()
