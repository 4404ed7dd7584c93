"""Read the log of a run in parts, also while training appends to it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAX_BYTES = 2**18  # per read
CURVES = ("line", "step", "loss", "lr", "gradient_norm", "tokens_per_second")


def follow(log: Path, start: int) -> dict[str, Any]:
    """Return the complete lines of a log from byte `start` on.

    next      the offset for the next call
    more      whether more can be read at once
    anew      whether the log was replaced: discard what was read before
    age       seconds since the last write; None without a log
    progress  the curves, one list per name
    events    all other lines; `line` is the line number among both
    """
    try:
        stat = log.stat()
        anew = start > stat.st_size
        with log.open("rb") as file:
            file.seek(0 if anew else start)
            data = file.read(MAX_BYTES)
            end = file.tell()
    except OSError:  # no log yet, or the run was moved
        return {"next": 0, "more": False, "anew": start > 0, "age": None, "progress": {}, "events": []}
    complete = data[: data.rfind(b"\n") + 1]
    events = [{**event, "line": line} for line, event in enumerate(_events(complete))]
    progress = [event for event in events if event["event"] == "progress"]
    return {
        "next": end - len(data) + len(complete),
        "more": bool(complete) and end < stat.st_size,
        "anew": anew,
        "age": max(0.0, time.time() - stat.st_mtime),
        "progress": {name: [event.get(name) for event in progress] for name in CURVES},
        "events": [event for event in events if event["event"] != "progress"],
    }


def summary(log: Path) -> dict[str, Any]:
    """Return the steps, seconds and last scores per evaluation set; None where the log does not contain them."""
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
        pass  # the run was copied without its log
    return {"steps": steps, "seconds": seconds, "scores": scores}


def _events(lines: Any) -> Iterator[dict[str, Any]]:
    """Yield the lines that are events; skip a line that a killed run left incomplete."""
    for line in lines.splitlines() if isinstance(lines, bytes) else lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # an incomplete line, or JSON nested too deeply to be an event
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            yield _clean(event)


def _clean(value: Any) -> Any:
    """Replace what JSON or UTF-8 cannot represent: non-finite numbers by None, lone surrogates by "?"."""
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value
