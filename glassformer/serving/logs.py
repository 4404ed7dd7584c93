"""Structured logs: one JSON object per line on standard error, with the id of the request.

No text of a user is logged unless the service was started with --log-text. The message of an unexpected error may
contain such text, so its type and the lines of code are logged instead.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

LOGGER = logging.getLogger("glassformer.serving")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON; `extra={"fields": {…}}` adds fields."""

    def __init__(self, *, with_text: bool) -> None:
        super().__init__()
        self._with_text = with_text

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": time, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = type(record.exc_info[1]).__name__
            frames = traceback.extract_tb(record.exc_info[2])
            line["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
            if self._with_text:
                line["message"] = str(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up_logging(*, with_text: bool) -> None:
    """Send the logs of the service and of uvicorn to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(with_text=with_text))
    for name, level in ((LOGGER.name, logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def log(event: str, **fields: object) -> None:
    """Log an event with fields."""
    LOGGER.info(event, extra={"fields": fields})


def log_error(event: str, error: BaseException, **fields: object) -> None:
    """Log an unexpected error."""
    LOGGER.error(event, extra={"fields": fields}, exc_info=error)
