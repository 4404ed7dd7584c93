"""Jobs of the pool that are not answered yet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from glassformer.serving.jobs import Job
from glassformer.serving.protocol import Message, job_to_json

if TYPE_CHECKING:
    from glassformer.serving.worker_handle import WorkerHandle

MAX_ATTEMPTS = 2  # a job that is lost with its worker is tried once more


@dataclass(eq=False)
class Ticket:
    """A job, or texts for a predictor, from its arrival to its answer.

    Attributes:
        rows: hypotheses that it takes up in a batch.
        attempts: number of workers that it was assigned to.
        changed: set when the text of a stream has grown, and at the end.
    """

    number: int
    model: str
    rows: int
    future: asyncio.Future[Any]
    job: Job | None = None
    texts: list[str] | None = None
    stream: bool = False
    attempts: int = 0
    worker: WorkerHandle | None = None
    text: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def message(self, key: str) -> Message:
        """Return the message that gives this job to a worker, for the model with this key."""
        if self.job is None:
            return ["predict", self.number, key, self.texts]
        return ["job", self.number, key, job_to_json(self.job), self.stream]

    def grow(self, kept: int, more: str) -> None:
        """Add further text of a stream. A second attempt starts again: text that it repeats is ignored."""
        text = self.text[:kept] + more
        if not self.text.startswith(text):
            self.text = text
            self.changed.set()

    def finish(self, outcome: Any) -> None:
        """Answer the job with a result or an exception."""
        if self.future.done():
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)
        self.changed.set()
