"""Messages between the server and its worker processes: JSON lists over a socket, each frame with its length in front.

To a worker                             From a worker
["load", key, name, path]               ["loaded", key, info] or ["refused", key, message, where, hint]
["unload", key]
["job", number, key, job, stream]       ["done", number, result] or ["failed", number, message, where, hint],
["predict", number, key, texts]         ["done", number, dicts]; of a stream: ["text", number, kept characters, more]
["cancel", number]
["ping"]                                ["pong", statistics]
["stop"]
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any

from glassformer.serving.jobs import Hypothesis, Job, Result

Message = list[Any]
SHARED_SOCKET = "shared"  # argument of a worker instead of a descriptor: its input describes the socket (Windows)

_LENGTH = struct.Struct("<I")
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def pack(messages: Iterable[Message]) -> bytes:
    """Return messages as one frame."""
    data = _ENCODER.encode(list(messages)).encode()
    return _LENGTH.pack(len(data)) + data


class Unpacker:
    """Splits a stream of bytes into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that further bytes complete."""
        self._data += data
        messages: list[Message] = []
        while len(self._data) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._data)[0]
            if len(self._data) < end:
                break
            messages += json.loads(self._data[_LENGTH.size : end])
            del self._data[:end]
        return messages


def job_to_json(job: Job) -> dict[str, Any]:
    return vars(job)


def job_from_json(fields: dict[str, Any]) -> Job:
    return Job(**fields | {"constraints": tuple(map(tuple, fields["constraints"]))})


def result_to_json(result: Result) -> list[Any]:
    hypotheses = [[one.text, one.score, one.alignment] for one in result.hypotheses]
    return [hypotheses, result.source_tokens, result.target_tokens]


def result_from_json(fields: list[Any]) -> Result:
    hypotheses, source_tokens, target_tokens = fields
    found = (Hypothesis(text, score, tuple(map(tuple, pairs))) for text, score, pairs in hypotheses)
    return Result(tuple(found), source_tokens, target_tokens)
