"""Handling of Ctrl-C and SIGTERM during training."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from glassformer.operating_system import stop_signals


class Interrupt:
    """Context manager that records the first Ctrl-C or SIGTERM; the loop stops after the current step.

    A second signal raises `KeyboardInterrupt` at once.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers only there
            for number in stop_signals():
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
