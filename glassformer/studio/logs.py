"""What a run wrote down while it was trained: its log, read in pieces and followed as it grows."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MOST_BYTES = 2**18  # read at a time
CURVES = ("line", "step", "loss", "lr", "gradient_norm", "tokens_per_second")


def follow(log: Path, start: int) -> dict[str, Any]:
    """The lines after a place in the log, as far as they are whole.

    next      where to read on
    more      whether there is more to read at once
    anew      the log is not the one that was read before: what came of it is to be forgotten
    age       seconds since something was written; None without a log
    progress  the curves, a list each
    events    every other line; `line` is its place among both
    """
    try:
        stat = log.stat()
        anew = start > stat.st_size
        with log.open("rb") as file:
            file.seek(0 if anew else start)
            read = file.read(MOST_BYTES)
            where = file.tell()
    except OSError:  # no log yet, or the run was moved
        return {"next": 0, "more": False, "anew": start > 0, "age": None, "progress": {}, "events": []}
    whole = read[: read.rfind(b"\n") + 1]
    events = [{**event, "line": line} for line, event in enumerate(_events(whole))]
    progress = [event for event in events if event["event"] == "progress"]
    return {
        "next": where - len(read) + len(whole),
        "more": bool(whole) and where < stat.st_size,
        "anew": anew,
        "age": max(0.0, time.time() - stat.st_mtime),
        "progress": {name: [event.get(name) for event in progress] for name in CURVES},
        "events": [event for event in events if event["event"] != "progress"],
    }


def summary(log: Path) -> dict[str, Any]:
    """How a run ended: steps, seconds, and its last scores on each held-out set; None where the log does not say."""
    steps, seconds, scores = None, None, {}
    try:
        with log.open("rb") as file:
            for event in _events(file):
                match event["event"]:
                    case "finished":
                        steps, seconds = event.get("step"), event.get("seconds")
                    case "validated":
                        steps = event.get("step")
                        scores["validation"] = event.get("scores", {})
                    case "tested":
                        scores[str(event.get("split"))] = event.get("scores", {})
    except OSError:
        pass  # a run that came without its log
    return {"steps": steps, "seconds": seconds, "scores": scores}


def _events(lines: Any) -> Iterator[dict[str, Any]]:
    """Lines that are events. One that a killed run left half written is passed over."""
    for line in lines.splitlines() if isinstance(lines, bytes) else lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # half a line, or brackets nested too deep to be one of ours
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            yield _sendable(event)


def _sendable(value: Any) -> Any:
    """Replace what JSON or UTF-8 cannot carry: numbers that are not finite by None, lone surrogates by "?"."""
    if isinstance(value, dict):
        return {_sendable(key): _sendable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_sendable(inner) for inner in value]
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value
