"""Translation of texts and documents: sentences become jobs of the pool, their results a document again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from glassformer.serving.documents.document import Document, SourceText, parse_text
from glassformer.serving.documents.html import parse_html
from glassformer.serving.documents.placeholders import term_spans
from glassformer.serving.documents.subtitles import parse_subtitles
from glassformer.serving.jobs import Hypothesis, Job, ModelInfo, QueueFull, Result
from glassformer.serving.metrics import Metrics
from glassformer.serving.options import Limits
from glassformer.serving.request_errors import RequestError

Item = TypeVar("Item")

FORMATS: Mapping[str, Callable[[str, Sequence[str]], Document]] = {
    "text": parse_text,
    "html": parse_html,
    "srt": parse_subtitles,
}
LONG_TEXT = 4_000  # characters
NO_SCORE = float("nan")  # of a sentence that was streamed token by token
RETRY_SECONDS = 0.05  # until a sentence of a text that is being translated is offered to the queue again
AHEAD = 16  # sentences of a stream that are decoded at a time
WINDOW = 64  # sentences of one request that are in the queue at a time, so that a long text leaves room for others


class PoolInterface(Protocol):
    """The interface of the pool of workers that the service uses."""

    @property
    def models(self) -> Mapping[str, ModelInfo]: ...
    async def start(self) -> None: ...
    async def stop(self, *, drain: bool, timeout: float) -> None: ...
    async def submit(self, job: Job) -> Result: ...
    def stream(self, job: Job) -> AsyncIterator[str]: ...  # the text as it grows
    async def predict(self, model: str, texts: list[str]) -> list[dict[str, Any]]: ...
    async def reload(self, model: str) -> None: ...
    def stats(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Request:
    """How to translate a text.

    Attributes:
        glossary: target terms by source term; one of the target terms must occur in the translation.
        kept_terms: terms that are not translated.
    """

    model: str
    format: str = "text"
    beam: int | None = None
    n_best: int = 1
    max_length: int | None = None
    prefix: str = ""
    alignment: bool = False
    glossary: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept_terms: tuple[str, ...] = ()


@dataclass(frozen=True)
class TranslatedSentence:
    source: str
    result: Result


@dataclass(frozen=True)
class Translation:
    """A translated document; `alternatives` has `n_best` texts, the best first."""

    alternatives: list[str]
    sentences: list[TranslatedSentence]

    @property
    def text(self) -> str:
        return self.alternatives[0]


class TextTranslator:
    """Translates documents with a pool."""

    def __init__(self, pool: PoolInterface, limits: Limits, metrics: Metrics) -> None:
        self.pool, self.limits, self.metrics = pool, limits, metrics

    def parse(self, text: str, request: Request) -> Document:
        """Split a document into sentences; refuse sentences that are too long."""
        document = FORMATS[request.format](text, request.kept_terms)
        longest = max((len(source.text) for source in document.sources), default=0)
        if longest > self.limits.sentence:
            raise RequestError(
                400,
                f"Invalid request: a sentence has {longest:,} characters; the limit is {self.limits.sentence:,}.",
                hint="split it into sentences that end with . ! or ?",
            )
        if request.prefix and len(document.sources) != 1:
            message = "A prefix needs a text of one sentence."
            raise RequestError(400, message, parameter="prefix", hint="send the sentences one by one")
        return document

    async def parse_aside(self, text: str, request: Request) -> Document:
        """Call `parse`, in a thread if the text is long."""
        return await _aside(text, self.parse, text, request)

    async def translate(self, texts: Sequence[str], request: Request) -> list[Translation]:
        """Translate texts. All their sentences may be decoded together."""
        documents = [await self.parse_aside(text, request) for text in texts]
        jobs = [self.job(source, request) for document in documents for source in document.sources]
        results = await self._submit_all(jobs)
        waiting = iter(results)
        translations = []
        for text, document in zip(texts, documents, strict=True):
            sentences = [TranslatedSentence(source.text, next(waiting)) for source in document.sources]
            translations.append(await _aside(text, _assemble, document, sentences, request))
        return translations

    async def stream(self, document: Document, request: Request) -> AsyncIterator[tuple[int, Result | str]]:
        """Yield the results of the sentences in order; with greedy decoding also the text of a sentence as it grows."""
        jobs = [self.job(source, request) for source in document.sources]
        if request.beam == 1 and request.n_best == 1 and not any(job.alignment for job in jobs):
            for number, job in enumerate(jobs):
                text = ""
                async for text in self.pool.stream(job):
                    yield number, text
                self.metrics.sentences.labels(job.model).inc()
                yield number, Result((Hypothesis(text, NO_SCORE),), 0, 0)
            return
        tasks: dict[int, asyncio.Task[Result]] = {}
        try:
            for number in range(len(jobs)):
                for ahead in range(number, min(number + AHEAD, len(jobs))):
                    if ahead not in tasks:
                        tasks[ahead] = asyncio.create_task(self._submit(jobs[ahead], patient=ahead > 0))
                yield number, await tasks[number]
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    def job(self, source: SourceText, request: Request) -> Job:
        """Return the job of a sentence, with constraints for the terms that occur in it.

        Without the native engine, the markup and the untranslated parts of a document are inserted into the translation
        as if its n-th word were aligned with the n-th source word.
        """
        aligns = self.pool.models[request.model].aligns
        terms: list[tuple[str, ...]] = [(term,) for term in source.kept_terms if aligns]
        for term, targets in request.glossary.items():
            if term not in source.kept_terms and term_spans(source.text, [term]):
                terms.append(targets)
        return Job(
            model=request.model,
            text=source.text,
            beam=request.beam,
            n_best=request.n_best,
            max_length=request.max_length,
            prefix=request.prefix,
            alignment=request.alignment or (source.needs_alignment and aligns),
            constraints=tuple(dict.fromkeys(terms)),
        )

    async def _submit_all(self, jobs: list[Job]) -> list[Result]:
        if len(jobs) == 1:
            return [await self._submit(jobs[0])]
        results: list[Result | None] = [None] * len(jobs)
        waiting = iter(enumerate(jobs))

        async def work() -> None:
            for number, job in waiting:
                results[number] = await self._submit(job, patient=number > 0)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(WINDOW, len(jobs))):
                    group.create_task(work())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [result for result in results if result is not None]

    async def _submit(self, job: Job, *, patient: bool = False) -> Result:
        """Submit a job. If the queue is full, the first sentence of a text is refused; the others wait (`patient`)."""
        while True:
            try:
                result = await self.pool.submit(job)
                break
            except QueueFull as full:
                if not patient:
                    raise
                await asyncio.sleep(min(RETRY_SECONDS, full.retry_after))
        self.metrics.sentences.labels(job.model).inc()
        self.metrics.tokens.labels(job.model, "source").inc(result.source_tokens)
        self.metrics.tokens.labels(job.model, "target").inc(result.target_tokens)
        return result


def _assemble(document: Document, sentences: list[TranslatedSentence], request: Request) -> Translation:
    """Join the n-th hypotheses of all sentences; a sentence with fewer hypotheses uses its best one."""
    texts = []
    for rank in range(max([1, *(len(one.result.hypotheses) for one in sentences)])):
        chosen = [best_of(one.result, rank) for one in sentences]
        texts.append(document.render(chosen))
    return Translation(list(dict.fromkeys(texts))[: request.n_best], sentences)


def best_of(result: Result, rank: int = 0) -> Hypothesis:
    """Return the hypothesis of a rank, or the best one; the empty text if there is none."""
    found = result.hypotheses
    return found[rank] if rank < len(found) else found[0] if found else Hypothesis("", 0.0)


async def _aside(text: str, function: Callable[..., Item], *arguments: Any) -> Item:
    """Call a function; in a thread if the text is long, so that other requests are not blocked."""
    return await asyncio.to_thread(function, *arguments) if len(text) > LONG_TEXT else function(*arguments)


def identity(text: str) -> Translation:
    """Return a text that is in the target language already."""
    return Translation([text], [])
