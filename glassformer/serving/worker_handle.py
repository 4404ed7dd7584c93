"""The server's handle of a worker process: start, messages, stop."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import UserError
from glassformer.serving.jobs import ModelInfo, WorkerLost
from glassformer.serving.protocol import SHARED_SOCKET, Message, Unpacker, pack
from glassformer.serving.tickets import MAX_ATTEMPTS, Ticket

READ_BYTES = 1 << 18
# One thread per worker: the engine uses one, and more threads than cores would slow each other down.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

Answered = Callable[["WorkerHandle", Message], None]


async def start_worker(connection: socket.socket, precision: str, engine: str) -> asyncio.subprocess.Process:
    """Start a worker process that holds this end of a connection.

    Other systems pass the descriptor on. Windows cannot: there the worker reads a copy of the socket from its input.
    """
    program = (sys.executable, "-m", "glassformer.serving.worker")
    environment = dict(os.environ) | ENVIRONMENT
    if sys.platform != "win32":
        given, number = asyncio.subprocess.DEVNULL, connection.fileno()
        return await asyncio.create_subprocess_exec(
            *(*program, str(number), precision, engine), pass_fds=[number], stdin=given, env=environment
        )
    process = await asyncio.create_subprocess_exec(
        *(*program, SHARED_SOCKET, precision, engine), stdin=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stdin is not None
    process.stdin.write(connection.share(process.pid))
    await process.stdin.drain()
    process.stdin.close()
    return process


class WorkerHandle:
    """One worker process. Its jobs are in `tickets` until they are answered.

    Args:
        answered: called with every message that is about a job.
        lost: called once, when the process has ended or does not answer.
    """

    def __init__(self, answered: Answered, lost: Callable[[WorkerHandle], None]) -> None:
        self._answered, self._lost = answered, lost
        self.tickets: dict[int, Ticket] = {}
        self.rows = 0  # hypotheses of its jobs
        self.isolated = False  # its only job is one that was lost with another worker
        self._outbox: list[Message] = []
        self.ready = self.ended = False
        self.statistics: dict[str, int] = {}
        self.heard = time.monotonic()  # when it last answered
        self._loading: dict[str, asyncio.Future[ModelInfo]] = {}

    async def start(self, *, precision: str, engine: str) -> None:
        """Start the process: a fresh interpreter, not a fork of the server."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await start_worker(theirs, precision, engine)
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        self._listener = asyncio.create_task(self._listen())

    @property
    def pid(self) -> int:
        return self._process.pid

    async def load(self, models: Mapping[str, tuple[str, Path]]) -> dict[str, ModelInfo]:
        """Load runs, (name, path) by key; return their descriptions.

        Raises:
            UserError: if a run cannot be loaded.
            WorkerLost: if the process ended.
        """
        if self.ended:
            raise WorkerLost("The worker process ended.")
        futures = {key: asyncio.get_running_loop().create_future() for key in models}
        self._loading |= futures
        self.send(*(["load", key, name, str(path)] for key, (name, path) in models.items()))
        try:
            await asyncio.gather(*futures.values())
        finally:
            for key in futures:
                self._loading.pop(key, None)
        return {key: future.result() for key, future in futures.items()}

    def send(self, *messages: Message) -> None:
        """Send messages, together with all others that are sent in this iteration of the event loop."""
        if messages and not self.ended:
            if not self._outbox:
                asyncio.get_running_loop().call_soon(self._flush)
            self._outbox += messages

    def _flush(self) -> None:
        messages, self._outbox = self._outbox, []
        if not self._writer.is_closing():  # it is closing if the process has just ended; `_lost` handles its jobs
            self._writer.write(pack(messages))

    def assign(self, ticket: Ticket, key: str) -> None:
        """Give a job to this worker."""
        self.tickets[ticket.number] = ticket
        self.isolated = ticket.attempts == MAX_ATTEMPTS
        self.rows += ticket.rows
        ticket.worker = self
        self.send(ticket.message(key))

    def release(self, ticket: Ticket) -> None:
        """Remove a job that was answered or cancelled."""
        del self.tickets[ticket.number]
        self.isolated = False
        self.rows -= ticket.rows
        ticket.worker = None

    def kill(self) -> None:
        """End the process at once."""
        if self._process.returncode is None:
            self._process.kill()

    async def stop(self, grace: float) -> None:
        """End the process, by force after `grace` seconds."""
        self.send(["stop"])
        try:
            await asyncio.wait_for(self._process.wait(), grace)
        except TimeoutError:
            self.kill()
            await self._process.wait()
        await self._listener

    async def _listen(self) -> None:
        unpacker = Unpacker()
        try:
            while data := await self._reader.read(READ_BYTES):
                self.heard = time.monotonic()
                for message in unpacker.feed(data):
                    self._take(message)
        except (ConnectionResetError, BrokenPipeError):  # the process was killed
            pass
        self.ended, self.ready = True, False
        self._writer.close()
        self.kill()
        await self._process.wait()
        for future in self._loading.values():
            if not future.done():
                future.set_exception(WorkerLost("The worker process ended while it loaded a run."))
        self._lost(self)

    def _take(self, message: Message) -> None:
        match message:
            case ["pong", statistics]:
                self.statistics = statistics
            case ["loaded", key, info]:
                self._resolve(key, ModelInfo(**info))
            case ["refused", key, text, where, hint]:
                self._resolve(key, UserError(text, where=where, hint=hint))
            case _:
                self._answered(self, message)

    def _resolve(self, key: str, outcome: Any) -> None:
        future = self._loading.get(key)
        if future is None or future.done():
            return
        if isinstance(outcome, UserError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
