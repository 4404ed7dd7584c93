"""The state that all routes share: the pool, the languages, the options, and whether the service is ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glassformer.serving.detection import Detection, Detector
from glassformer.serving.file_store import FileStore
from glassformer.serving.jobs import ModelInfo
from glassformer.serving.languages import AUTO, Languages
from glassformer.serving.logs import log
from glassformer.serving.metrics import Metrics
from glassformer.serving.options import ServeOptions
from glassformer.serving.request_errors import RequestError
from glassformer.serving.translation import PoolInterface, Request, TextTranslator, Translation, identity
from glassformer.settings.tasks import default_task, task_traits


@dataclass(frozen=True)
class Route:
    """The languages of a text and the model that translates it; None if it is in the target language already."""

    source: str
    target: str
    model: str | None
    detected: Detection | None = None


class Service:
    """The state that the routes share."""

    def __init__(self, pool: PoolInterface, options: ServeOptions) -> None:
        self.pool, self.options, self.limits = pool, options, options.limits
        self.metrics = Metrics(pool.stats)
        self.translator = TextTranslator(pool, options.limits, self.metrics)
        self.files = FileStore()
        self.languages = Languages({}, {})
        self.detector = Detector([])
        self.started_at = int(time.time())
        self.is_ready = False

    async def start(self) -> None:
        """Start the workers."""
        await self.pool.start()
        self.languages = Languages(self.pool.models, self.options.languages)
        self.detector = Detector(self.languages.codes)
        self.is_ready = True
        log("ready", models=list(self.pool.models), languages=self.languages.codes)

    async def stop(self) -> None:
        """Finish the running jobs, then end the workers."""
        self.is_ready = False
        await self.pool.stop(drain=True, timeout=self.options.drain_seconds)
        self.files.close()
        log("stopped")

    async def reload(self, names: Sequence[str] | None = None) -> None:
        """Load models again from their folders, and the keys from their file, while requests are served."""
        if self.options.keys is not None:
            self.options.keys.reload()
        for name in self.pool.models if names is None else names:
            await self.pool.reload(name)
            log("reloaded", model=name)

    # ------------------------------------------------------------------------------ models and languages

    def model(self, name: str | None, kind: str) -> ModelInfo:
        """Return the model of a request: by its name, or the only one of its kind ("translate", "complete", …)."""
        models = self.pool.models
        fitting = [info for info in models.values() if kind_of(info.task) == kind]
        if name is None and len(fitting) == 1:
            return fitting[0]
        names = ", ".join(info.name for info in fitting)
        if not fitting:
            raise RequestError(404, "No model of this service can do this.", hint=f"it serves: {', '.join(models)}")
        if name is None:
            raise RequestError(400, "The request does not say which model.", parameter="model", hint=f"models: {names}")
        if name not in models:
            raise RequestError(404, f"There is no model {name!r}.", parameter="model", hint=f"models: {names}")
        if models[name] not in fitting:
            message = f"The model {name!r} cannot do this: its task is {models[name].task}."
            raise RequestError(400, message, parameter="model", hint=f"models: {names}")
        return models[name]

    async def route(self, text: str, source: str, target: str) -> Route:
        """Return the languages of a text and its model. `source` may be "auto"."""
        end = self.languages.code(target)
        if source.lower() != AUTO:
            start = self.languages.code(source)
            return Route(start, end, self.languages.model(start, end))
        # A text without letters (emoji, numbers) has no language; it is returned as it is.
        detected = (await self.detector.rank(text, self.languages.sources(end)))[0]
        if not any(map(str.isalpha, text)):
            return Route(detected.language, end, None, detected)
        return Route(detected.language, end, self.languages.model(detected.language, end), detected)

    async def translate(
        self, texts: Sequence[str], found: Sequence[Route], request_of: Callable[[str], Request]
    ) -> list[Translation]:
        """Translate texts, each by the model of its route. The texts of one model are decoded together.

        Args:
            request_of: returns the request for a model, by its name.
        """
        translations = [identity(text) for text in texts]
        for model in {route.model for route in found if route.model is not None}:
            rows = [row for row, route in enumerate(found) if route.model == model]
            results = await self.translator.translate([texts[row] for row in rows], request_of(model))
            for row, result in zip(rows, results, strict=True):
                translations[row] = result
        return translations

    # ------------------------------------------------------------------------------ limits

    def check_texts(self, texts: Sequence[str]) -> None:
        """Refuse too many texts, or too many characters."""
        if len(texts) > self.limits.texts:
            raise self.exceeds(len(texts), self.limits.texts, "texts")
        characters = sum(map(len, texts))
        self.metrics.characters.inc(characters)
        if characters > self.limits.characters:
            raise self.exceeds(characters, self.limits.characters, "characters")

    @staticmethod
    def exceeds(size: int, limit: int, unit: str) -> RequestError:
        return RequestError(
            400,
            f"Invalid request: request ({size}) exceeds text limit ({limit})",
            hint=f"send at most {limit:,} {unit} at a time",
        )


def kind_of(task: str) -> str:
    """Return what a model of a task is used for: "translate", "complete" (a prompt) or "predict"."""
    if task == default_task() or task_traits(task).sequence_to_sequence:
        return "translate"
    from glassformer.tasks import task_spec

    return "complete" if task_spec(task).predict_uses == {"sampling"} else "predict"
