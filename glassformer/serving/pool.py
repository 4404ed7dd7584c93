"""The pool of worker processes: a bounded queue of jobs, one worker per core, and the recovery from lost workers.

A job is sent to the worker with the fewest hypotheses as soon as one has room; a lone job never waits. When a worker
process ends, it is replaced, and its jobs are tried once more, each alone on a worker: one that ends a second worker
fails, and no other job with it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from glassformer.errors import UserError
from glassformer.inference.search_engine import NativeEngine
from glassformer.serving.jobs import Job, JobFailed, ModelInfo, QueueFull, Result, WorkerLost
from glassformer.serving.protocol import Message, result_from_json
from glassformer.serving.tickets import MAX_ATTEMPTS, Ticket
from glassformer.serving.worker_handle import WorkerHandle

WINDOW_ROWS = 3 * NativeEngine.batch_rows // 2  # a full batch, and the sentences that join it next
RATE_JOBS = 200  # answered jobs from which the rate is measured
PING_SECONDS = 2.0
# Done, failed, cancelled and refused jobs; tokens; jobs that were lost with their worker and retried, and jobs that
# ended two workers; workers that were lost, that did not answer, and that could not be replaced at once.
COUNTS = (
    *("done", "failed", "cancelled", "refused", "source_tokens", "target_tokens", "retried", "poisoned"),
    *("lost_workers", "stalled", "failed_restarts"),
)
FIRST_BACKOFF, LAST_BACKOFF = 0.2, 10.0  # seconds between attempts to replace a worker


class Pool:
    """Worker processes that decode jobs.

    Args:
        runs: run folders by the name that jobs use.
        workers: processes, each with one thread.
        queue_size: jobs that may wait for a worker; more are refused.
        stall_timeout: seconds after which a worker that does not answer is killed.

    Example:
        >>> pool = Pool({"en-fr": Path("runs/en-fr")}, workers=2)
        >>> await pool.start()
        >>> result = await pool.submit(Job("en-fr", "I am a student."))
    """

    def __init__(
        self,
        runs: Mapping[str, Path],
        *,
        workers: int,
        precision: str = "fp32",
        engine: str = "auto",
        queue_size: int = 1024,
        stall_timeout: float = 120.0,
    ) -> None:
        self.models: dict[str, ModelInfo] = {}
        self.counts: Counter[str] = Counter()
        self._size, self._precision, self._engine = workers, precision, engine
        self._queue_size, self._stall_timeout = queue_size, stall_timeout
        self._numbers, self._generations = count(1), count(1)
        self._paths = {name: Path(path) for name, path in runs.items()}
        self._key = {name: f"{name}#0" for name in runs}  # of the loaded model that new jobs use
        self._wanted = {key: (name, self._paths[name]) for name, key in self._key.items()}  # that every worker loads
        self._workers: list[WorkerHandle] = []
        self._queue: dict[int, Ticket] = {}
        self._suspects: dict[int, Ticket] = {}  # lost with their worker: tried again, one at a time
        self._answered: deque[float] = deque(maxlen=RATE_JOBS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = False
        self._idle = asyncio.Event()

    # ---------------------------------------------------------------------------------------- start and stop

    async def start(self) -> None:
        """Start the workers and load the runs.

        Raises:
            UserError: if a run cannot be loaded.
        """
        self._open = True
        try:
            # The first one writes files to the cache folder that the others read.
            infos = await self._start_worker()
            await asyncio.gather(*(self._start_worker() for _ in range(self._size - 1)))
        except (UserError, WorkerLost) as error:
            await self.stop(drain=False, timeout=1)
            if isinstance(error, UserError):
                raise
            message = "A worker process ended while it loaded the runs."
            raise UserError(message, hint="give the service more memory, or fewer --workers") from None
        self.models = {name: infos[key] for name, key in self._key.items()}
        self._run(self._watch())

    async def stop(self, *, drain: bool, timeout: float) -> None:
        """End the workers; with `drain`, after all jobs are answered or `timeout` seconds have passed."""
        self._open = False
        if drain:
            with suppress(TimeoutError):  # the rest is answered with an error
                await asyncio.wait_for(self._until_idle(), timeout)
        for task in self._tasks:
            task.cancel()
        for ticket in [*self._queue.values(), *self._suspects.values(), *self._in_flight()]:
            ticket.finish(WorkerLost("The service has stopped."))
        self._queue, self._suspects = {}, {}
        workers, self._workers = self._workers, []
        await asyncio.gather(*(worker.stop(min(timeout, 5.0)) for worker in workers))

    async def _start_worker(self) -> dict[str, ModelInfo]:
        worker = WorkerHandle(self._take, self._lose)
        await worker.start(precision=self._precision, engine=self._engine)
        self._workers.append(worker)
        infos: dict[str, ModelInfo] = {}
        try:
            while missing := {key: run for key, run in self._wanted.items() if key not in infos}:  # also since then
                infos |= await worker.load(missing)
        except UserError:
            self._workers.remove(worker)
            await worker.stop(1)
            raise
        worker.ready = True
        self._dispatch()
        return infos

    async def _replace(self) -> None:
        """Start a worker in the place of one that ended; try again if that fails."""
        backoff = FIRST_BACKOFF
        while self._open:
            try:
                await self._start_worker()
            except UserError:  # a run folder was removed or damaged meanwhile
                self.counts["failed_restarts"] += 1
            except WorkerLost:
                return  # `_lose` has begun to replace this one as well
            else:
                return
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, LAST_BACKOFF)

    async def _watch(self) -> None:
        """Ping every worker; kill workers that do not answer."""
        while True:
            for worker in list(self._workers):
                if time.monotonic() - worker.heard > self._stall_timeout:
                    self.counts["stalled"] += 1
                    worker.kill()
                worker.send(["ping"])
            await asyncio.sleep(PING_SECONDS)

    def _run(self, coroutine: Any) -> None:
        """Run a coroutine in the background."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---------------------------------------------------------------------------------------- jobs

    async def submit(self, job: Job) -> Result:
        """Decode a job. If the calling task is cancelled, the job is dropped.

        Raises:
            QueueFull: if too many jobs wait.
            JobFailed: if the input is at fault.
            WorkerLost: if two workers ended while they decoded it, or the service stops.
        """
        result: Result = await self._answer_to(self._enqueue(job.model, self._rows(job), job=job))
        return result

    async def stream(self, job: Job) -> AsyncIterator[str]:
        """Yield the text of the best hypothesis as it grows; the last one is the result. See `submit` for errors."""
        ticket = self._enqueue(job.model, self._rows(job), job=job, stream=True)
        sent = ""
        try:
            while not ticket.future.done():
                await ticket.changed.wait()
                ticket.changed.clear()
                if ticket.text != sent and not ticket.future.done():
                    sent = ticket.text
                    yield sent
            result: Result = ticket.future.result()
            if result.hypotheses[0].text != sent:
                yield result.hypotheses[0].text
        finally:
            self._drop(ticket)

    async def predict(self, model: str, texts: list[str]) -> list[dict[str, Any]]:
        """Return the predictions of a run of another task, as `glassformer predict --json` prints them."""
        found: list[dict[str, Any]] = await self._answer_to(self._enqueue(model, 1, texts=texts))
        return found

    async def _answer_to(self, ticket: Ticket) -> Any:
        try:
            return await ticket.future
        finally:
            self._drop(ticket)

    def _rows(self, job: Job) -> int:
        if job.temperature is not None or job.model not in self.models:
            return 1
        return job.beam or max(job.n_best, self.models[job.model].limits.get("beam", 1))

    def _enqueue(
        self, model: str, rows: int, *, job: Job | None = None, texts: list[str] | None = None, stream: bool = False
    ) -> Ticket:
        if not self._open:
            raise WorkerLost("The service is stopping.")
        if model not in self._key:
            raise JobFailed(f"There is no model {model!r}.", "model", f"use one of: {', '.join(self._key)}")
        if len(self._queue) >= self._queue_size:
            self.counts["refused"] += 1
            raise QueueFull(self._retry_after())
        future = asyncio.get_running_loop().create_future()
        ticket = Ticket(next(self._numbers), model, rows, future, job, texts, stream)
        self._queue[ticket.number] = ticket
        self._idle.clear()
        self._dispatch()
        return ticket

    def _drop(self, ticket: Ticket) -> None:
        """Drop a job whose caller was cancelled; do nothing if it was answered."""
        if ticket.future.done() and not ticket.future.cancelled():
            ticket.future.exception()  # marks it as retrieved, even if the reader of a stream stopped earlier
            return
        self.counts["cancelled"] += 1
        ticket.future.cancel()
        self._queue.pop(ticket.number, None)
        self._suspects.pop(ticket.number, None)
        if worker := ticket.worker:
            worker.send(["cancel", ticket.number])
            worker.release(ticket)
        self._dispatch()

    # ---------------------------------------------------------------------------------------- workers

    def _dispatch(self) -> None:
        """Send waiting jobs to workers that have room. A job that was lost with its worker runs alone on another."""
        ready = [worker for worker in self._workers if worker.ready]
        free = [worker for worker in ready if not worker.isolated]
        if self._suspects and len(free) == len(ready) and free:
            alone = min(free, key=_load)
            free.remove(alone)
            if not alone.tickets:
                self._assign(alone, self._suspects)
        while self._queue and free:
            worker, ticket = min(free, key=_load), next(iter(self._queue.values()))
            if worker.tickets and worker.rows + ticket.rows > WINDOW_ROWS:
                break
            self._assign(worker, self._queue)
        if not self._queue and not self._suspects and not any(worker.tickets for worker in self._workers):
            self._idle.set()

    def _assign(self, worker: WorkerHandle, queue: dict[int, Ticket]) -> None:
        ticket = queue.pop(next(iter(queue)))
        ticket.attempts += 1
        worker.assign(ticket, self._key[ticket.model])

    def _take(self, worker: WorkerHandle, message: Message) -> None:
        """Handle a worker's message about a job; ignore messages about cancelled jobs."""
        kind, number, *rest = message
        ticket = worker.tickets.get(number)
        if ticket is None:
            return
        if kind == "text":
            ticket.grow(*rest)
            return
        worker.release(ticket)
        self._answered.append(time.monotonic())
        self.counts[kind] += 1
        if kind == "failed":
            ticket.finish(JobFailed(*rest))
        elif ticket.job is None:
            ticket.finish(rest[0])
        else:
            result = result_from_json(rest[0])
            self.counts["source_tokens"] += result.source_tokens
            self.counts["target_tokens"] += result.target_tokens
            ticket.finish(result)
        self._dispatch()

    def _lose(self, worker: WorkerHandle) -> None:
        """Replace a worker that ended; try its jobs again."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self.counts["lost_workers"] += 1
        for ticket in list(worker.tickets.values()):
            worker.release(ticket)
            if ticket.attempts < MAX_ATTEMPTS:
                self.counts["retried"] += 1
                self._suspects[ticket.number] = ticket
            else:
                self.counts["poisoned"] += 1
                ticket.finish(WorkerLost("Two worker processes ended while they decoded this text."))
        if self._open:
            self._run(self._replace())
        self._dispatch()

    async def reload(self, model: str, path: Path | None = None) -> None:
        """Load a run again, or another one in its place; jobs use it as soon as every worker has loaded it.

        Raises:
            JobFailed: if there is no such model.
            UserError: if the run cannot be loaded; the present one stays in use.
        """
        if model not in self._key:
            raise JobFailed(f"There is no model {model!r}.", "model", f"use one of: {', '.join(self._key)}")
        new, old = f"{model}#{next(self._generations)}", self._key[model]
        run = model, path or self._paths[model]
        self._wanted[new] = run
        loads = [worker.load({new: run}) for worker in self._workers if worker.ready]
        found = await asyncio.gather(*loads, return_exceptions=True)
        # A worker that was lost meanwhile is replaced by one that loads all wanted runs.
        refused = [error for error in found if isinstance(error, BaseException) and not isinstance(error, WorkerLost)]
        infos = [info[new] for info in found if isinstance(info, dict)]
        if refused or (found and not infos):
            self._forget(new)
            raise refused[0] if refused else WorkerLost("Every worker process ended while it loaded the run.")
        self._key[model], self._paths[model] = new, run[1]
        self.models[model] = infos[0] if infos else self.models[model]
        self._forget(old)

    def _forget(self, key: str) -> None:
        """Unload a model from every worker, after its jobs."""
        self._wanted.pop(key, None)
        for worker in self._workers:
            worker.send(["unload", key])

    # ---------------------------------------------------------------------------------------- state

    def stats(self) -> dict[str, Any]:
        """Return the state of the queue and the workers, and counts since the start."""
        steps = sum(worker.statistics.get("steps", 0) for worker in self._workers)
        rows = sum(worker.statistics.get("rows", 0) for worker in self._workers)
        return {
            "queue": len(self._queue) + len(self._suspects),
            "in_flight": sum(len(worker.tickets) for worker in self._workers),
            "rate": self._rate(),
            "mean_batch": rows / steps if steps else 0.0,
            "workers": [
                {
                    "pid": worker.pid,
                    "ready": worker.ready,
                    "jobs": len(worker.tickets),
                    "memory": worker.statistics.get("memory", 0),
                }
                for worker in self._workers
            ],
            **{name: self.counts[name] for name in COUNTS},
        }

    def _rate(self) -> float:
        """Return the answered jobs per second, as measured from the last ones; 0 if there are none."""
        if len(self._answered) < 2:
            return 0.0
        return (len(self._answered) - 1) / max(1e-3, self._answered[-1] - self._answered[0])

    def _retry_after(self) -> float:
        """Return in how many seconds the waiting jobs will have been answered."""
        rate = self._rate()
        return min(60.0, max(1.0, len(self._queue) / rate)) if rate else 1.0

    def _in_flight(self) -> list[Ticket]:
        return [ticket for worker in self._workers for ticket in worker.tickets.values()]

    async def _until_idle(self) -> None:
        self._dispatch()
        await self._idle.wait()


def _load(worker: WorkerHandle) -> int:
    return worker.rows
