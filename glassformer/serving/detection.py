"""Language identification for `source: "auto"` and /detect, among the languages that are served.

py3langid does it: a naive Bayes classifier over byte n-grams, 140 languages, 4.5 MB, without PyTorch, and a model file
without code (no pickle). A run folder holds no text to train a detector of our own on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple


class Detection(NamedTuple):
    """A language and the confidence in percent."""

    language: str
    confidence: float

    def to_json(self) -> dict[str, Any]:
        return {"confidence": round(self.confidence, 1), "language": self.language}


class Detector:
    """Identifies languages. The model is loaded on first use, in a thread: it takes seconds."""

    def __init__(self, codes: Sequence[str]) -> None:
        self.codes = list(codes)
        self._loading: asyncio.Task[Any] | None = None

    def start(self) -> None:
        """Begin to load the model."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(self._load))

    async def rank(self, text: str, among: Sequence[str] | None = None) -> list[Detection]:
        """Return the languages by confidence, best first. Languages that cannot be identified come last, with 0."""
        self.start()
        assert self._loading is not None
        identifier = await asyncio.shield(self._loading)
        codes = self.codes if among is None else list(among)
        if not codes or not any(map(str.isalpha, text)):
            return [Detection(code, 0.0) for code in codes]
        scores = {code: score for code, score in identifier.rank(text[:2000]) if code in map(_base, codes)}
        total = sum(scores.values()) or 1.0
        found = [Detection(code, 100 * scores.get(_base(code), 0.0) / total) for code in codes]
        return sorted(found, key=lambda one: -one.confidence)

    def _load(self) -> Any:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        known = {_base(code) for code in self.codes} & set(identifier.labels)
        if known:
            identifier.set_languages(sorted(known))
        return identifier


def _base(code: str) -> str:
    """Return the code that py3langid uses for a language."""
    base = code.lower().split("-")[0]
    return {"nb": "no"}.get(base, base)
