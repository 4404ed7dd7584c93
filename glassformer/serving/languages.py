"""The languages that the service translates, and which model translates which pair."""

from __future__ import annotations

import re
from collections.abc import Mapping

from glassformer.errors import UserError
from glassformer.serving.jobs import ModelInfo
from glassformer.serving.request_errors import RequestError
from glassformer.text.languages import language_name

CODE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z]{2,8})?")
AUTO = "auto"


class Languages:
    """Language pairs and their models. A text in the target language is returned as it is, as in LibreTranslate."""

    def __init__(self, models: Mapping[str, ModelInfo], given: Mapping[str, tuple[str, str]]) -> None:
        """Take the languages of each model from `given`, or from the run."""
        self.pairs: dict[tuple[str, str], str] = {}
        for name, info in models.items():
            source, target = given.get(name, (info.source_language, info.target_language))
            if source and target:
                self.pairs.setdefault((source, target), name)
        self.codes = sorted({code for pair in self.pairs for code in pair})

    def listing(self) -> list[dict[str, object]]:
        """Return the answer of /languages."""
        return [{"code": code, "name": language_name(code), "targets": self.targets(code)} for code in self.codes]

    def targets(self, source: str) -> list[str]:
        return sorted({source, *(target for start, target in self.pairs if start == source)})

    def sources(self, target: str) -> list[str]:
        """Return the languages that can be translated into this one, and itself."""
        return sorted({target, *(source for source, end in self.pairs if end == target)})

    def sources_of(self, model: str) -> list[str]:
        """Return the languages that a model translates from; none if they are not known."""
        return [source for (source, _), name in self.pairs.items() if name == model]

    def code(self, given: str) -> str:
        """Return the code of a served language: the same in lower case, or without the region (`en-US`)."""
        lower = {code.lower(): code for code in self.codes}
        for candidate in (given.lower(), re.split("[-_]", given.lower())[0]):
            if candidate in lower:
                return lower[candidate]
        raise RequestError(400, f"{given} is not supported", hint=f"the languages are {', '.join(self.codes)}")

    def model(self, source: str, target: str) -> str | None:
        """Return the model of a pair; None if source and target are the same language."""
        if (source, target) in self.pairs:
            return self.pairs[source, target]
        if source == target:
            return None
        raise RequestError(
            400,
            f"{language_name(target)} ({target}) is not available as a target language from "
            f"{language_name(source)} ({source})",
            hint=f"{source} is translated into {', '.join(self.targets(source))}",
        )


def parse_pair(text: str, where: str) -> tuple[str, str]:
    """Return the two codes of `en-de` or `en:de`."""
    separator = ":" if ":" in text else "-"
    codes = text.split(separator)
    if len(codes) != 2 or not all(CODE.fullmatch(code) for code in codes):
        raise UserError(f"{text!r} is not a pair of language codes.", where=where, hint="write en-de, or pt-BR:en")
    return codes[0], codes[1]
