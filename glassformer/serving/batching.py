"""Continuous batching of the jobs of one model: sentences join and leave between the steps of the decoder.

The output of a sentence does not depend on the other sentences. `Work` turns a job into sentences and back:
`translation_jobs.py` for a Transformer, `continuation_jobs.py` for a GPT.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from glassformer.decoding import Hypothesis as Output
from glassformer.decoding import not_finite
from glassformer.engine.session import Request, Session
from glassformer.errors import UserError
from glassformer.serving.jobs import Result

JOIN_SENTENCES = 4  # number of sentences that the encoder should process together
MAX_WAIT = 0.004  # seconds that a sentence waits for others if the session is not empty


@dataclass(frozen=True)
class Answer:
    """The result of a job, its error or, for a stream, its text so far."""

    number: int
    outcome: Result | UserError | str


@dataclass
class Part:
    """One sentence in the engine, and the job that it belongs to."""

    work: Work
    request: Request
    index: int = 0
    attempt: int = 0
    arrived: float = field(default_factory=time.monotonic)


class Work(ABC):
    """A job in progress in the native engine."""

    number: int
    stream: bool

    @abstractmethod
    def first_parts(self) -> list[Part]:
        """Return the sentences to decode; none if the job needs no decoding."""

    @abstractmethod
    def finish(self, part: Part, found: list[Output]) -> list[Part]:
        """Store the hypotheses of a sentence; return further sentences to decode."""

    @abstractmethod
    def result(self, session: Session | None) -> Result:
        """Return the result, after the last sentence has ended."""

    @abstractmethod
    def text(self, part: Part, tokens: Sequence[int]) -> str:
        """Return the text of the whole job so far, given the tokens that a sentence has so far."""


@dataclass
class NativeBatcher:
    """Decodes jobs in the native engine.

    Args:
        session: of this worker's thread.
        max_rows: hypotheses that are decoded at a time; further sentences wait.
    """

    session: Session
    max_rows: int
    steps: int = 0  # of the decoder, and the hypotheses that they extended
    stepped_rows: int = 0
    _waiting: deque[Part] = field(default_factory=deque)
    _active: dict[int, Part] = field(default_factory=dict)  # by the number in the session
    _open: dict[int, int] = field(default_factory=dict)  # sentences that are not done, by the number of the job
    _sent: dict[int, str] = field(default_factory=dict)  # of a stream: the text so far
    _rows: int = 0

    @property
    def busy(self) -> bool:
        return bool(self._open)

    def add(self, work: Work) -> list[Answer]:
        """Begin a job."""
        parts = work.first_parts()
        if not parts:
            return [Answer(work.number, work.result(self.session))]
        self._open[work.number] = len(parts)
        self._waiting.extend(parts)
        return []

    def cancel(self, number: int) -> None:
        """Drop a job; one that is not known has ended already."""
        if self._open.pop(number, None) is None:
            return
        self._sent.pop(number, None)
        self._waiting = deque(part for part in self._waiting if part.work.number != number)
        for slot in [slot for slot, part in self._active.items() if part.work.number == number]:
            self._rows -= self._active.pop(slot).request.options.beam
            self.session.remove(slot)

    def step(self) -> list[Answer]:
        """Let waiting sentences join, and decode the next token of every sentence."""
        answers = self._join()
        self.steps += 1
        self.stepped_rows += self._rows
        for slot in self.session.step():
            part = self._active.pop(slot)
            self._rows -= part.request.options.beam
            answers += self._finish(part, slot)
        for slot, part in self._active.items():
            if part.work.stream:
                answers += self._progress(part, slot)
        return answers

    def _join(self) -> list[Answer]:
        """Let sentences join as far as there is room.

        The encoder is more efficient on several sentences. If the session is not empty, a sentence therefore waits a
        few milliseconds for others.
        """
        if not self._waiting or (self._active and not self._enough_wait()):
            return []
        joining: list[Part] = []
        while self._waiting:
            rows = self._waiting[0].request.options.beam
            if self._rows and self._rows + rows > self.max_rows:
                break
            self._rows += rows
            joining.append(self._waiting.popleft())
        return self._add(joining) if joining else []

    def _enough_wait(self) -> bool:
        """Return whether several waiting sentences fit, or the first one fits and has waited long enough."""
        rows = sum(part.request.options.beam for part in islice(self._waiting, JOIN_SENTENCES))
        if self._rows + rows <= self.max_rows and len(self._waiting) >= JOIN_SENTENCES:
            return True
        return time.monotonic() - self._waiting[0].arrived > MAX_WAIT

    def _add(self, parts: list[Part]) -> list[Answer]:
        """Add sentences to the session; where the engine refuses one, only its job fails."""
        try:
            self._active |= zip(self.session.add([part.request for part in parts]), parts, strict=True)
        except (ValueError, MemoryError) as error:
            if len(parts) > 1:
                return [answer for part in parts for answer in self._add([part])]
            self._rows -= parts[0].request.options.beam
            return self._fail(parts[0].work, UserError(f"The engine cannot decode this: {error}."))
        return []

    def _finish(self, part: Part, slot: int) -> list[Answer]:
        work = part.work
        try:
            more = work.finish(part, self.session.collect(slot))
        except FloatingPointError:
            return self._fail(work, not_finite())
        except MemoryError as error:
            return self._fail(work, UserError(f"The engine cannot decode this: {error}."))
        if work.number not in self._open:  # another sentence of the same job has failed
            return []
        self._waiting.extendleft(reversed(more))
        self._open[work.number] += len(more) - 1
        if self._open[work.number]:
            return []
        del self._open[work.number]
        self._sent.pop(work.number, None)
        return [Answer(work.number, work.result(self.session))]

    def _fail(self, work: Work, error: UserError) -> list[Answer]:
        if work.number not in self._open:
            return []
        self.cancel(work.number)
        return [Answer(work.number, error)]

    def _progress(self, part: Part, slot: int) -> list[Answer]:
        text, number = part.work.text(part, self.session.progress(slot)), part.work.number
        if text == self._sent.get(number, ""):
            return []
        self._sent[number] = text
        return [Answer(number, text)]
