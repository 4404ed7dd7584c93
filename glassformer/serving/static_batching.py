"""Static batches of translations in PyTorch, for models that the native engine cannot run."""

from __future__ import annotations

from glassformer.errors import UserError
from glassformer.inference.batch_decoder import BatchDecoder
from glassformer.inference.translator import Translator
from glassformer.serving.batching import Answer
from glassformer.serving.translation_jobs import TranslationWork

BATCH_JOBS = 64


class StaticBatcher:
    """Decodes translations with PyTorch, one batch of jobs with equal settings after the other."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self.steps = self.stepped_rows = 0
        self._waiting: dict[int, TranslationWork] = {}

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def add(self, work: TranslationWork) -> list[Answer]:
        """Begin a job.

        Raises:
            UserError: if it asks for what only the native engine does.
        """
        job = work.job
        if job.prefix or job.constraints or job.alignment:
            raise UserError(
                "This model runs in PyTorch, which has neither prefix, terms nor alignment.",
                where=job.model,
                hint="leave them out, or serve a Transformer without ablations",
            )
        self._waiting[work.number] = work
        return []

    def cancel(self, number: int) -> None:
        self._waiting.pop(number, None)

    def step(self) -> list[Answer]:
        """Decode one batch."""
        first = next(iter(self._waiting.values()))
        batch = [work for work in self._waiting.values() if work.search_settings == first.search_settings][:BATCH_JOBS]
        decoder = BatchDecoder(self.translator.engine, first.search_settings.settings, first.search_settings.sampling)
        sources = [ids for work in batch for ids in work.sources]
        self.steps += 1
        self.stepped_rows += len(sources)
        try:
            found = iter(decoder.decode(sources, [first.search_settings.seed] * len(sources)))
        except UserError as error:
            if len(batch) == 1:
                del self._waiting[first.number]
                return [Answer(first.number, error)]
            return self._one_by_one(batch)
        for work in batch:
            del self._waiting[work.number]
            work.found = dict(enumerate(next(found) for _ in work.sources))
        return [Answer(work.number, work.result(None)) for work in batch]

    def _one_by_one(self, batch: list[TranslationWork]) -> list[Answer]:
        """Decode each job of a batch alone: only the one that caused the error fails."""
        waiting, answers = self._waiting, list[Answer]()
        for work in batch:
            self._waiting = {work.number: work}
            answers += self.step()
        self._waiting = {number: work for number, work in waiting.items() if work not in batch}
        return answers
