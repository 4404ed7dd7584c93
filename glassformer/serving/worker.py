"""A worker process of the service: `python -m glassformer.serving.worker FD PRECISION ENGINE`.

It reads messages (`protocol.py`) from the socket FD and decodes in one thread; if FD is `SHARED_SOCKET`, its input
describes the socket. Between two steps of the decoder it handles new messages, so that a new sentence joins at once.
It ends when the server closes the socket.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

from glassformer.errors import UserError
from glassformer.machine import release_memory, resident_memory
from glassformer.operating_system import stop_signals
from glassformer.serving.batching import Answer
from glassformer.serving.jobs import Result
from glassformer.serving.protocol import SHARED_SOCKET, Message, Unpacker, job_from_json, pack, result_to_json
from glassformer.serving.served_model import ServedModel, load_served

READ_BYTES = 1 << 20
POISON = "GLASSFORMER_TEST_POISON"  # environment variable, for tests: a text that kills the worker which decodes it


class Worker:
    """The main loop of a worker process."""

    def __init__(self, connection: socket.socket, *, precision: Any, engine: Any) -> None:
        self.connection, self.precision, self.engine = connection, precision, engine
        self.models: dict[str, ServedModel] = {}
        self.unloading: set[str] = set()
        self.key_of: dict[int, str] = {}  # model of each job
        self.texts: dict[int, str] = {}  # of each stream: what was sent
        self.outbox: list[Message] = []
        self.loaded: deque[tuple[str, ServedModel | UserError]] = deque()
        self.wake_up, self.woken = socket.socketpair()  # written to by the threads that load
        self.unpacker = Unpacker()

    def run(self) -> None:
        """Work until the server closes the connection or sends "stop"."""
        while self._receive(wait=not any(model.busy for model in self.models.values())):
            for key in list(self.models):
                model = self.models[key]
                if model.busy and model.batcher is not None:
                    for answer in model.batcher.step():
                        self._answer(answer)
                if key in self.unloading and not model.busy:
                    self.unloading.remove(key)
                    del self.models[key], model
                    release_memory()
            self._flush()

    def _receive(self, *, wait: bool) -> bool:
        """Handle the messages that have arrived, or `wait` for one; return whether to continue."""
        readable, _, _ = select.select([self.connection, self.woken], [], [], None if wait else 0)
        if self.woken in readable:
            self.woken.recv(READ_BYTES)
            self._take_loaded()
        if self.connection in readable:
            data = self.connection.recv(READ_BYTES)
            if not data:
                return False
            for message in self.unpacker.feed(data):
                if message[0] == "stop":
                    return False
                self._handle(message)
        self._flush()
        return True

    def _flush(self) -> None:
        if self.outbox:
            self.connection.sendall(pack(self.outbox))
            self.outbox = []

    def _handle(self, message: Message) -> None:
        match message:
            case ["load", key, name, path]:
                threading.Thread(target=self._load, args=(key, name, Path(path)), daemon=True).start()
            case ["unload", key]:
                self.unloading.add(key)
            case ["cancel", number]:
                if model := self.models.get(self.key_of.pop(number, "")):
                    assert model.batcher is not None
                    model.batcher.cancel(number)
                    self.texts.pop(number, None)
            case ["ping"]:
                self.outbox.append(["pong", self._statistics()])
            case ["job", number, key, fields, stream]:
                _kill_if_poisoned(fields["text"])
                self._attempt(number, lambda: self._begin(number, key, fields, stream))
            case ["predict", number, key, texts]:
                done = self._attempt(number, lambda: self.models[key].predict(texts))
                if done is not None:
                    self.outbox.append(["done", number, done])
            case _:
                raise ValueError(f"unknown message {message[0]!r}")

    def _attempt(self, number: int, call: Any) -> Any:
        """Call a function; answer the job with the error if it raises a `UserError`."""
        try:
            return call()
        except UserError as error:
            self._answer(Answer(number, error))
            return None

    def _begin(self, number: int, key: str, fields: dict[str, Any], stream: bool) -> None:
        self.key_of[number] = key
        for answer in self.models[key].begin(number, job_from_json(fields), stream=stream):
            self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        number, outcome = answer.number, answer.outcome
        if isinstance(outcome, str):
            before = self.texts.get(number, "")
            kept = len(before) if outcome.startswith(before) else 0
            self.outbox.append(["text", number, kept, outcome[kept:]])
            self.texts[number] = outcome
            return
        self.key_of.pop(number, None)
        self.texts.pop(number, None)
        if isinstance(outcome, Result):
            self.outbox.append(["done", number, result_to_json(outcome)])
        else:
            self.outbox.append(["failed", number, outcome.message, outcome.where, outcome.hint])

    def _load(self, key: str, name: str, path: Path) -> None:
        """Load a model, in a separate thread so that the other models continue decoding."""
        found: ServedModel | UserError
        try:
            found = load_served(name, path, precision=self.precision, engine=self.engine)
        except UserError as error:
            found = error
        except Exception as error:  # any failure is reported to the server
            found = UserError(f"The run cannot be loaded: {error!r}.", where=str(path), hint="copy the folder again")
        self.loaded.append((key, found))
        self.wake_up.send(b"1")

    def _take_loaded(self) -> None:
        while self.loaded:
            key, found = self.loaded.popleft()
            if isinstance(found, UserError):
                self.outbox.append(["refused", key, found.message, found.where, found.hint])
            else:
                self.models[key] = found
                self.outbox.append(["loaded", key, vars(found.info)])

    def _statistics(self) -> dict[str, int]:
        batchers = [model.batcher for model in self.models.values() if model.batcher is not None]
        return {
            "memory": resident_memory(),
            "steps": sum(batcher.steps for batcher in batchers),
            "rows": sum(batcher.stepped_rows for batcher in batchers),
        }


def _kill_if_poisoned(text: str) -> None:
    if text == os.environ.get(POISON):
        os._exit(9)


def _connection(descriptor: str) -> socket.socket:
    """Return the socket with this descriptor, or the one that the server copied to the input (Windows)."""
    if descriptor == SHARED_SOCKET:
        return socket.fromshare(sys.stdin.buffer.read())  # type: ignore[attr-defined, no-any-return, unused-ignore]
    return socket.socket(fileno=int(descriptor))


def main() -> None:
    for number in stop_signals():  # the server ends its workers after they have answered
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()  # exclude the objects of the imports from garbage collection
    descriptor, precision, engine = sys.argv[1:]
    with _connection(descriptor) as connection:
        try:
            Worker(connection, precision=precision, engine=engine).run()
        except (BrokenPipeError, ConnectionResetError):  # the server was killed
            sys.exit(1)


if __name__ == "__main__":
    main()
